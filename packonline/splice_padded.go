package packonline

// slack determines the accepted padding of rows that no pieces fill completely. It is that of the fullest row that
// bucket finds, plus 1/slack of a row.
//
// Such rows occur with documents of one or few lengths. They consist of related pieces, and end with the related
// pieces that leave the least room, which is padded.
const slack = 64

// paddedEnd is the best end of a row found so far.
type paddedEnd struct {
	keep    int // number of pieces of the row before it
	chosen  [3]int32
	count   int // of chosen
	padding fraction
	row     []int32 // the whole row
}

// emitRelatedPadded emits a row of related pieces around the oldest piece: full if other pieces fill it, else padded.
// It reports whether it did. It does not if nothing is related, if packing by length would pad much less, or while the
// latter has happened too often.
func (p *splice) emitRelatedPadded(out *Rows) bool {
	if p.queryBudget <= -maxQueryBudget {
		return false
	}
	e, before := &p.bestEnd, p.queries
	used, full := p.chainRelated()
	if full > 0 {
		p.emitOrdered(full, out)
		return true
	}
	if len(p.row) == 1 && e.count == 0 {
		p.returnPieces(0)
		return false
	}
	e.row = append(e.row[:0], p.row...)
	l := p.lengths[bucketFor(p.lengths, used)]
	if end := (fraction{l - used, l}); e.padding.of == 0 || 2*(e.keep+e.count) < len(p.row) || end.less(e.padding) {
		e.keep, e.count, e.padding = len(p.row), 0, end
	}
	if l := p.completeByLength(used, max(2, (len(p.row)+1)/2)); l > 0 {
		p.emitOrdered(l, out)
		return true
	}
	p.returnPieces(0)
	if e.padding.part > e.padding.of/slack && p.canPadMuchLess(e.padding) {
		p.queryBudget -= budgetUnit * (p.queries - before)
		return false
	}
	for _, i := range append(e.row[:e.keep], e.chosen[:e.count]...) {
		p.takePiece(i)
	}
	p.addLongest(e.padding.part)
	p.endCounts.padded++
	p.emitOrdered(e.padding.of, out)
	return true
}

// chainRelated takes the oldest piece, the pieces related to it, the pieces related to those, and so on. When no more
// pieces are related, it continues with another piece. It returns the tokens of the row and, if they fill a row, its
// length. If no piece is related to the first one, the first one stays alone.
func (p *splice) chainRelated() (used, full int32) {
	p.bestEnd.padding, p.bestEnd.count = fraction{}, 0
	next := p.pool.byAge.first
	for asking := 0; next != none || asking < len(p.row); asking++ {
		if asking == len(p.row) {
			p.takePiece(next)
			used += p.pool.items[next].length
		}
		p.queryRelated(p.row[asking], p.queryLimit(used, tripleReach), p.longest-used)
		if l := p.fillWithRelated(used); l > 0 {
			return used, l
		}
		p.considerEnd(used)
		used = p.takeRelated(used)
		next = none
		if len(p.candidates) == 0 && len(p.row) > 1 { // a piece whose answers leave hardly any room ends the row
			next = p.nextUnrelated(p.longest - used)
		}
	}
	return used, 0
}

// tripleReach is the room, in mean pieces, up to which the end with the least padding is searched for, because an end
// has at most three pieces.
const tripleReach = 3

// considerEnd keeps the end formed by the answers if it pads at most as much as the best one so far.
func (p *splice) considerEnd(used int32) {
	e := &p.bestEnd
	for _, l := range p.lengths {
		room := l - used
		if room < 0 || room > p.exactRoom(l, tripleReach) {
			continue
		}
		chosen, left := p.fill.chooseNearest(p.candidates, p.pool, room)
		if s := (fraction{left, l}); e.padding.of == 0 || !e.padding.less(s) {
			e.keep, e.padding, e.count = len(p.row), s, len(chosen)
			for k, c := range chosen {
				e.chosen[k] = p.candidates[c].Slot
			}
		}
	}
}

// nextUnrelated returns the next piece of a row with the given room: one of the oldest, else the longest that fits, or
// none.
func (p *splice) nextUnrelated(room int32) int32 {
	i := p.pool.byAge.first
	for n := 0; n < maxMisfits && i != none; n++ {
		if p.pool.items[i].length <= room {
			return i
		}
		i = p.pool.newerItem(&p.pool.byAge, i)
	}
	if n := p.pool.longestAtMost(room); n != none {
		return p.pool.queues[n].first
	}
	return none
}

// canPadMuchLess reports whether a row packed by length would pad much less.
func (p *splice) canPadMuchLess(padding fraction) bool {
	padding.part -= padding.of / slack
	return p.pool.tryOldest(max(1, paddedRowTries/len(p.lengths)), min(p.pool.credit, 0)-creditGuess, func(n int32) bool {
		return p.leastPadding(n).less(padding)
	})
}
