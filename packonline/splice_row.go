package packonline

import "math"

// Parameters for filling a row of splice exactly.
const (
	tail      = 8   // the room to be filled exactly is at most 1/tail of a row, or a mean piece if that is more
	choice    = 256 // maximum related pieces to choose from
	combined  = 96  // of these, how many are combined in triples
	neared    = 48  // of these, how many are used if no combination fills the room
	mixed     = 24  // of these, how many are tried with pieces of matching lengths
	leastRoom = 16  // minimum tokens left by a related piece, because hardly any pieces fill less
)

// reach returns the room at the end of a row of length l that is to be filled exactly by related pieces: at least
// means mean pieces.
func (p *splice) reach(l, means int32) int32 { return max(l/tail, means*p.stock.mean()) }

// ask finds the pieces that are most related to a piece of the row under construction and have at most longest
// tokens.
func (p *splice) ask(piece int32, most int, longest int32) {
	p.answers = p.index.Top(piece, most, longest, p.answers)
	if len(p.answers) > 0 {
		p.asked++
	}
}

// grab takes a piece into the row under construction and hides it from the index.
func (p *splice) grab(i int32) {
	p.stock.takeItem(i)
	p.index.Hide(i, true)
	p.row = append(p.row, i)
}

// letGo puts all but the first keep pieces of the row under construction back into the stock and the index.
func (p *splice) letGo(keep int) {
	for _, i := range p.row[keep:] {
		p.index.Hide(i, false)
	}
	p.putBack(keep)
}

// related emits a full row of pieces related to a root and to one another, and reports whether such a row exists. It
// is the shortest row that related pieces fill exactly, else one that other pieces complete.
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

// wanted returns the number of related pieces to query: few, until a row is nearly full.
func (p *splice) wanted(used, means int32) int {
	for _, l := range p.lengths {
		if l > used && l-used <= p.reach(l, means) {
			return choice
		}
	}
	return p.config.Splice.K
}

// follow takes the k best answers that fit, and returns the new number of tokens of the row. It takes no short pieces
// while they are scarce.
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

// finish fills the shortest row that answers can fill, and returns its length, or 0 if none.
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

// others fills a row with pieces of matching lengths. If necessary it removes related pieces from the end of the row,
// but keeps at least least of them. It returns the length of the row, or 0 if none.
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

// fallback fills a row with one of the answers and one or two other pieces, else with up to three others. It returns
// the length of the row, or 0 if none.
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

// fillByLength fills room with up to three pieces of matching lengths, and reports whether it did.
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

// trim emits a row of the paper's algorithm: related pieces until it is full, in the configured order. Tokens beyond
// the row are dropped.
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
