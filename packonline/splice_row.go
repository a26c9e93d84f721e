package packonline

import "math"

// How a row of splice is filled exactly.
const (
	tail      = 8   // the room that is to be filled exactly is at most 1/8 of a row, or a mean piece, if that is more
	choice    = 256 // related pieces to choose from for it
	combined  = 96  // of these are combined to three
	neared    = 48  // of these, where nothing fills it
	mixed     = 24  // and are tried together with pieces of the right lengths
	leastRoom = 16  // tokens that no related piece may leave over: hardly anything fills so little
)

// reach is how much room of a row of length l is to be filled at its end: exactly by related pieces as soon as it may
// hold a mean piece.
func (p *splice) reach(l, means int32) int32 { return max(l/tail, means*p.stock.mean()) }

// ask finds the pieces that are most related to one of the row under construction and fit into what is left of the
// longest row.
func (p *splice) ask(piece int32, most int, longest int32) {
	p.answers = p.index.Top(piece, most, longest, p.answers)
	if len(p.answers) > 0 {
		p.asked++
	}
}

// grab takes a piece into the row under construction and out of the answers.
func (p *splice) grab(i int32) {
	p.stock.takeItem(i)
	p.index.Hide(i, true)
	p.row = append(p.row, i)
}

// letGo puts all but the first keep pieces of the row under construction back.
func (p *splice) letGo(keep int) {
	for _, i := range p.row[keep:] {
		p.index.Hide(i, false)
	}
	p.putBack(keep)
}

// related emits a full row of pieces related to a root and to one another, and reports whether there is one: the
// shortest that related pieces fill exactly, else one that others do.
func (p *splice) related(root int32, out *Rows) bool {
	before := p.asked
	p.grab(root)
	used := p.stock.items[root].length
	for asking := 0; asking < len(p.row); asking++ {
		p.ask(p.row[asking], p.wanted(used, 1), p.longest-used)
		if l := p.finish(used); l > 0 {
			p.complete(l, out)
			return true
		}
		used = p.follow(used)
	}
	if l := p.others(used, 1); l > 0 {
		p.spare -= earned * max(0, p.asked-before-int64(len(p.row)))
		p.complete(l, out)
		return true
	}
	p.spare -= earned * (p.asked - before)
	p.letGo(0)
	return false
}

// complete emits the row under construction.
func (p *splice) complete(length int32, out *Rows) {
	p.arrange()
	p.emit(length, out)
}

// wanted is how many related pieces are asked for: few, until a row is nearly full.
func (p *splice) wanted(used, means int32) int {
	for _, l := range p.lengths {
		if l > used && l-used <= p.reach(l, means) {
			return choice
		}
	}
	return p.config.Splice.K
}

// follow takes the k best answers that fit, short ones only while there are enough of these, and returns how many
// tokens the row has then.
func (p *splice) follow(used int32) int32 {
	taken, longerThan := 0, int32(0)
	if len(p.lengths) == 1 && p.balance.scarce() {
		longerThan = p.balance.edges[0]
	}
	for _, c := range p.answers {
		n := p.stock.items[c.Slot].length
		if room := p.longest - used - n; taken < p.config.Splice.K && room >= leastRoom && n > longerThan {
			p.grab(c.Slot)
			used += n
			taken++
		}
	}
	return used
}

// finish fills the shortest row that it can fill with answers, and returns its length, 0 if there is none.
func (p *splice) finish(used int32) int32 {
	for _, l := range p.lengths {
		room := l - used
		if room < 0 || room > p.reach(l, 1) {
			continue
		}
		if room == 0 && len(p.row) > 1 {
			p.ends.related++
			return l
		}
		if best := p.fill.choose(p.answers, p.stock, room); len(best) > 0 {
			for _, c := range best {
				p.grab(p.answers[c].Slot)
			}
			p.ends.related++
			return l
		}
	}
	return 0
}

// others fills a row with pieces of the right lengths, where it must behind fewer related ones, but least of them at
// least. It returns the length of the row, 0 if there is none.
func (p *splice) others(used int32, least int) int32 {
	for len(p.row) >= least {
		if l := p.fallback(used); l > 0 {
			return l
		}
		used -= p.stock.items[p.row[len(p.row)-1]].length
		p.letGo(len(p.row) - 1)
	}
	return 0
}

// fallback fills a row with one of the answers and one or two other pieces, else with up to three others, and returns
// its length, 0 if it fills none.
func (p *splice) fallback(used int32) int32 {
	for _, l := range p.lengths {
		room := l - used
		switch {
		case room < 0:
			continue
		case room == 0:
			p.ends.related++
			return l
		case room <= p.reach(l, 1) && p.mix(room), p.fillByLength(room):
			return l
		}
	}
	return 0
}

// mix fills room with one of the answers and one or two other pieces, and reports whether it did.
func (p *splice) mix(room int32) bool {
	for _, c := range p.answers[:min(len(p.answers), mixed)] {
		n := p.stock.items[c.Slot].length
		if n >= room || p.index.Hidden(c.Slot) {
			continue
		}
		p.grab(c.Slot)
		if p.addOne(room-n) || p.addTwo(room-n, 1, (room-n)/2) {
			p.ends.mixed++
			return true
		}
		p.letGo(len(p.row) - 1)
	}
	return false
}

// fillByLength fills room with up to three pieces of the right lengths, and reports whether it did.
func (p *splice) fillByLength(room int32) bool {
	before := len(p.row)
	if !p.near(room) || !p.addFew(room) {
		return false
	}
	if before > 1 {
		p.ends.length++
	} else {
		p.ends.unrelated++
	}
	return true
}

// trim emits a row as the paper's algorithm makes it: related pieces until it is full, in the order that is asked for,
// and what is too much dropped.
func (p *splice) trim(root int32, out *Rows) {
	p.grab(root)
	used := p.stock.items[root].length
	for asking := 0; used < p.longest && p.stock.pieces > 0; {
		if asking == len(p.row) { // nothing is related to any of them: another root
			p.grab(p.stock.ages.first)
			used += p.stock.items[p.row[asking]].length
			continue
		}
		p.ask(p.row[asking], p.config.Splice.K, math.MaxInt32)
		asking++
		for _, c := range p.answers {
			if used < p.longest {
				p.grab(c.Slot)
				used += p.stock.items[c.Slot].length
			}
		}
	}
	p.arrange()
	room := p.longest
	for _, i := range p.row {
		w := p.stock.items[i].waiting
		n := min(room, w.length)
		if n > 0 {
			out.add(Piece{w.doc, w.start, n}, p.age(w))
			room -= n
		}
		p.counts.Dropped += int64(w.length - n)
		p.free(i)
	}
	p.row = p.row[:0]
	p.ends.trimmed++
	p.close(p.longest, p.longest-room, out)
}
