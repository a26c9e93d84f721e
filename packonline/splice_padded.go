package packonline

// Rows that nothing fills to the last token: documents of one length, and of few. They keep what is related, and end
// with the related pieces that leave the least room, which is padded.
//
// How much that may be: as much as the fullest row that bucket finds would pad, and 1/slack of a row more.
const slack = 64

// padded is the best end of a row that has been found.
type padded struct {
	keep    int // pieces of the row in front of it
	chosen  [3]int32
	count   int // of these
	padding share
	row     []int32 // the whole row
}

// insist emits a row around the oldest piece that keeps what is related: full where other pieces fill it, else padded.
// It reports whether it did: not where nothing is related, or where length alone would pad much less, and not while
// that was so too often.
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

// chain takes the oldest piece and what is related to it and to one another, and where nothing more is related another
// piece and what is related to that. It returns the tokens that they have and, if they fill a row, its length. Where
// nothing is related to the first piece it stays alone.
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
		if len(p.answers) == 0 && len(p.row) > 1 { // what has an answer that leaves hardly any room ends the row
			next = p.another(p.longest - used)
		}
	}
	return used, 0
}

// triple is how many mean pieces a row may lack where the end that pads the least is looked for: it has three at most.
const triple = 3

// consider keeps the end that the answers make, if it pads less than the best so far or as little.
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

// another is the piece around which a row goes on that has so much room: one of the oldest, else the longest that fits,
// or none.
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

// muchLess reports whether a row that is made by length alone would pad much less.
func (p *splice) muchLess(padding share) bool {
	padding.part -= padding.of / slack
	return p.stock.eldest(max(1, paddedRows/len(p.lengths)), min(p.stock.credit, 0)-creditGuess, func(n int32) bool {
		return p.leastPadding(n).less(padding)
	})
}
