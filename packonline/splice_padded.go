package packonline

// slack determines the accepted padding of rows that no pieces fill completely. It is that of the fullest row that
// bucket finds, plus 1/slack of a row.
//
// Such rows occur with documents of one or few lengths. They consist of related pieces, and end with the related
// pieces that leave the least room, which is padded.
const slack = 64

// padded is the best end of a row found so far.
type padded struct {
	keep    int // number of pieces of the row before it
	chosen  [3]int32
	count   int // of chosen
	padding share
	row     []int32 // the whole row
}

// insist emits a row of related pieces around the oldest piece: full if other pieces fill it, else padded. It reports
// whether it did. It does not if nothing is related, if packing by length would pad much less, or while the latter
// has happened too often.
func (p *splice) insist(out *Rows) bool {
	if p.spare <= -spareMost {
		return false
	}
	e, before := &p.padded, p.asked
	used, full := p.chain()
	if full > 0 {
		p.complete(full, out)
		return true
	}
	if len(p.row) == 1 && e.count == 0 {
		p.letGo(0)
		return false
	}
	e.row = append(e.row[:0], p.row...)
	l := p.lengths[bucketFor(p.lengths, used)]
	if end := (share{l - used, l}); e.padding.of == 0 || 2*(e.keep+e.count) < len(p.row) || end.less(e.padding) {
		e.keep, e.count, e.padding = len(p.row), 0, end
	}
	if l := p.others(used, max(2, (len(p.row)+1)/2)); l > 0 {
		p.complete(l, out)
		return true
	}
	p.letGo(0)
	if e.padding.part > e.padding.of/slack && p.muchLess(e.padding) {
		p.spare -= earned * (p.asked - before)
		return false
	}
	for _, i := range append(e.row[:e.keep], e.chosen[:e.count]...) {
		p.grab(i)
	}
	p.addLongest(e.padding.part)
	p.ends.padded++
	p.complete(e.padding.of, out)
	return true
}

// chain takes the oldest piece, the pieces related to it, the pieces related to those, and so on. When no more pieces
// are related, it continues with another piece. It returns the tokens of the row and, if they fill a row, its length.
// If no piece is related to the first one, the first one stays alone.
func (p *splice) chain() (used, full int32) {
	p.padded.padding, p.padded.count = share{}, 0
	next := p.stock.ages.first
	for asking := 0; next != none || asking < len(p.row); asking++ {
		if asking == len(p.row) {
			p.grab(next)
			used += p.stock.items[next].length
		}
		p.ask(p.row[asking], p.wanted(used, triple), p.longest-used)
		if l := p.finish(used); l > 0 {
			return used, l
		}
		p.consider(used)
		used = p.follow(used)
		next = none
		if len(p.answers) == 0 && len(p.row) > 1 { // a piece whose answers leave hardly any room ends the row
			next = p.another(p.longest - used)
		}
	}
	return used, 0
}

// triple is the room, in mean pieces, up to which the end with the least padding is searched for, because an end has
// at most three pieces.
const triple = 3

// consider keeps the end formed by the answers if it pads at most as much as the best one so far.
func (p *splice) consider(used int32) {
	e := &p.padded
	for _, l := range p.lengths {
		room := l - used
		if room < 0 || room > p.reach(l, triple) {
			continue
		}
		chosen, left := p.fill.nearest(p.answers, p.stock, room)
		if s := (share{left, l}); e.padding.of == 0 || !e.padding.less(s) {
			e.keep, e.padding, e.count = len(p.row), s, len(chosen)
			for k, c := range chosen {
				e.chosen[k] = p.answers[c].Slot
			}
		}
	}
}

// another returns the next piece of a row with the given room: one of the oldest, else the longest that fits, or
// none.
func (p *splice) another(room int32) int32 {
	i := p.stock.ages.first
	for n := 0; n < misfits && i != none; n++ {
		if p.stock.items[i].length <= room {
			return i
		}
		i = p.stock.newer(&p.stock.ages, i)
	}
	if n := p.stock.atMost(room); n != none {
		return p.stock.queues[n].first
	}
	return none
}

// muchLess reports whether a row packed by length would pad much less.
func (p *splice) muchLess(padding share) bool {
	padding.part -= padding.of / slack
	return p.stock.eldest(max(1, paddedRows/len(p.lengths)), min(p.stock.credit, 0)-creditGuess, func(n int32) bool {
		return p.leastPadding(n).less(padding)
	})
}
