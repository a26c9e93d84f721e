package packonline

// Searches are paid for. Most documents cost next to nothing, but some lengths complete each other only in rows of very
// many pieces, or never, and would cost a thousand times as much. So every document brings credit, what it leaves over
// is saved up to a limit, and all that a search does is taken from it: comparing words, looking at pieces, taking them
// and putting them back, but for the pieces that leave in the end. Natural lengths use a tenth of it. Without credit no
// row is searched for: one of the oldest pieces leaves in a padded row, with the longest pieces that fit. Credit is
// counted in operations, never in time, and is part of the state.
const (
	// to take a piece, and to put it back; to compare a word or to look at a piece costs 1, some 8 ns
	moveCost         = 3
	creditDocument   = 192     // of a document,
	creditTokens     = 8       // and 1 for so many of its tokens
	creditSaved      = 1 << 15 // that can be saved,
	creditSavedPiece = 32      // and so much for every piece of the pool
	creditFlush      = 512     // of a piece that a flush finds
	creditPadding    = 2048    // that may be borrowed to fill a row that is padded, which decides how much of it is
	creditGuess      = 96      // that may be borrowed to guess which row that should be
)

// mostCredit is the most that is saved, and the most that is owed.
func (p *bucket) mostCredit() int { return creditSaved + creditSavedPiece*p.config.Pool }

// earn adds the credit of a document, so many times.
func (p *bucket) earn(length int32, times int) {
	most := p.mostCredit()
	p.stock.credit = min(max(p.stock.credit+times*(creditDocument+int(min(length, p.longest))/creditTokens), -most), most)
}

// spend takes the cost of a search from the credit.
func (s *stock) spend(cost int) {
	s.work += cost
	s.credit -= cost
}

// broke reports whether searches have to stop.
func (s *stock) broke() bool { return s.credit <= s.owed }

// guesses is how many lengths of pieces are looked at to guess what is left of a row.
const guesses = 32

// guess returns how much of room the longest pieces that fit, one after the other, would leave, or a bit more.
func (s *stock) guess(room int32) int32 {
	n := s.atMost(room)
	for k := 0; k < guesses && n != none; k++ {
		s.spend(1)
		room -= n * min(s.counts[n], room/n)
		n = s.atMost(min(room, n-1))
	}
	return room
}
