package packonline

// Searches are limited by a credit. Most documents cost very little. But some lengths complete each other only in
// rows of very many pieces, or never, and would cost a thousand times as much. So every document adds credit, and
// unused credit is saved up to a limit. All operations of a search are charged: comparing words, visiting pieces,
// taking them and putting them back. Pieces that are finally emitted are not charged. Typical lengths use a tenth of
// the credit. Without credit no row is searched for: one of the oldest pieces is emitted in a padded row, with the
// longest pieces that fit. Credit is counted in operations, never in time, and is part of the state.
const (
	// cost of taking a piece, and of putting it back; comparing a word or visiting a piece costs 1, about 8 ns
	moveCost         = 3
	creditDocument   = 192     // per document,
	creditTokens     = 8       // plus 1 per this many of its tokens
	creditSaved      = 1 << 15 // maximum savings,
	creditSavedPiece = 32      // plus this much per piece of the pool
	creditFlush      = 512     // per piece in the pool at a flush
	creditPadding    = 2048    // overdraft for filling a padded row, which determines its amount of padding
	creditGuess      = 96      // overdraft for guessing which row to pad
)

// maxCredit returns the maximum that is saved, and also the maximum debt.
func (p *bucket) maxCredit() int { return creditSaved + creditSavedPiece*p.config.Pool }

// addCredit adds the credit of a document, multiplied by times.
func (p *bucket) addCredit(length int32, times int) {
	most := p.maxCredit()
	p.pool.credit = min(max(p.pool.credit+times*(creditDocument+int(min(length, p.longest))/creditTokens), -most), most)
}

// spendCredit subtracts the cost of a search from the credit.
func (s *indexedPool) spendCredit(cost int) {
	s.work += cost
	s.credit -= cost
}

// isOutOfCredit reports whether searches have to stop for lack of credit.
func (s *indexedPool) isOutOfCredit() bool { return s.credit <= s.minCredit }

// maxGuesses is the number of lengths that are visited to guess the padding of a row.
const maxGuesses = 32

// guessRoom returns an upper estimate of the room that remains if the longest fitting pieces are taken one after the
// other, most pieces at the most.
func (s *indexedPool) guessRoom(room int32, most int) int32 {
	n := s.longestAtMost(room)
	for k := 0; k < maxGuesses && n != none && most > 0; k++ {
		s.spendCredit(1)
		taken := min(s.counts[n], room/n, int32(most))
		room -= n * taken
		most -= int(taken)
		n = s.longestAtMost(min(room, n-1))
	}
	return room
}
