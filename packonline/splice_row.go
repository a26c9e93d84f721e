package packonline

import (
	"math"

	"loaderd/packonline/related"
)

// How a row of splice is filled exactly.
const (
	tail      = 8   // the room that is to be filled exactly is at most 1/8 of a row, or a mean piece, if that is more
	choice    = 256 // related pieces to choose from for it
	combined  = 96  // of these are combined to three
	mixed     = 24  // and are tried together with pieces of the right lengths
	leastRoom = 16  // tokens that no related piece may leave over: hardly anything fills so little
)

// reach is how much room of a row of length l is to be filled exactly.
func (p *splice) reach(l int32) int32 { return max(l/tail, p.stock.mean()) }

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

// related emits a full row of pieces related to a root and to one another, and reports whether there is one: the shortest that related
// pieces fill exactly, else one that others do.
func (p *splice) related(root int32, out *Rows) bool {
	p.grab(root)
	used := p.stock.items[root].length
	for asking := 0; asking < len(p.row); asking++ {
		p.answers = p.index.Top(p.row[asking], p.wanted(used), p.longest-used, p.answers)
		if l := p.finish(used); l > 0 {
			p.arrange()
			p.emit(l, out)
			return true
		}
		taken := 0
		for _, c := range p.answers {
			n := p.stock.items[c.Slot].length
			if room := p.longest - used - n; taken < p.config.Splice.K && room >= leastRoom {
				p.grab(c.Slot)
				used += n
				taken++
			}
		}
	}
	for len(p.row) > 0 {
		if l := p.fallback(used); l > 0 {
			p.arrange()
			p.emit(l, out)
			return true
		}
		used -= p.stock.items[p.row[len(p.row)-1]].length
		p.letGo(len(p.row) - 1)
	}
	return false
}

// wanted is how many related pieces are asked for: few, until a row is nearly full.
func (p *splice) wanted(used int32) int {
	for _, l := range p.lengths {
		if l > used && l-used <= p.reach(l) {
			return choice
		}
	}
	return p.config.Splice.K
}

// finish fills the shortest row that it can fill with answers, and returns its length, 0 if there is none.
func (p *splice) finish(used int32) int32 {
	for _, l := range p.lengths {
		room := l - used
		if room < 0 || room > p.reach(l) {
			continue
		}
		if room == 0 && len(p.row) > 1 {
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

// fallback fills a row with one of the answers and two other pieces, else with up to three others.
func (p *splice) fallback(used int32) int32 {
	for _, l := range p.lengths {
		room := l - used
		if room < 0 {
			continue
		}
		if room == 0 {
			return l
		}
		if room <= p.reach(l) {
			for _, c := range p.answers[:min(len(p.answers), mixed)] {
				n := p.stock.items[c.Slot].length
				if n >= room || p.index.Hidden(c.Slot) {
					continue
				}
				p.grab(c.Slot)
				if p.addOne(room-n) || p.addTwo(room-n, 1, (room-n)/2) {
					p.ends.mixed++
					return l
				}
				p.letGo(len(p.row) - 1)
			}
		}
		if p.near(room) && p.addFew(room) {
			p.ends.others++
			return l
		}
	}
	return 0
}

// trim emits a row as the paper's algorithm makes it: related pieces until it is full, in the order that is asked for, and what is too
// much dropped.
func (p *splice) trim(root int32, out *Rows) {
	p.grab(root)
	used := p.stock.items[root].length
	for asking := 0; used < p.longest && p.stock.pieces > 0; {
		if asking == len(p.row) { // nothing is related to any of them: another root
			p.grab(p.stock.ages.first)
			used += p.stock.items[p.row[asking]].length
			continue
		}
		p.answers = p.index.Top(p.row[asking], p.config.Splice.K, math.MaxInt32, p.answers)
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
	p.close(p.longest, p.longest-room, out)
}

// filling chooses pieces that fill room exactly, of those that are related.
type filling struct {
	best   []int32 // by length: the most related answer
	round  []int64 // by length: when that was written
	rounds int64
	chosen [3]int32
}

func newFilling(longest int32) filling {
	return filling{best: make([]int32, longest+1), round: make([]int64, longest+1)}
}

// choose returns which one, two, or three if it must, of the answers have room tokens together: those with the greatest sum of score
// times length.
func (f *filling) choose(answers []related.Candidate, s *stock, room int32) []int32 {
	length := func(i int32) int32 { return s.items[answers[i].Slot].length }
	value := func(i int32) int64 { return int64(answers[i].Score) * int64(length(i)) }
	f.rounds++
	for k := range answers {
		i := int32(k)
		if n := length(i); n <= room && f.round[n] != f.rounds {
			f.round[n], f.best[n] = f.rounds, i
		}
	}
	// found is the most related answer of a length.
	found := func(n int32) (int32, bool) {
		if n <= 0 || f.round[n] != f.rounds {
			return 0, false
		}
		return f.best[n], true
	}
	most, count := int64(-1), 0
	take := func(v int64, chosen ...int32) {
		if v > most {
			most, count = v, copy(f.chosen[:], chosen)
		}
	}
	if i, ok := found(room); ok {
		take(value(i), i)
	}
	for k := range answers {
		i := int32(k)
		if j, ok := found(room - length(i)); ok && j != i {
			take(value(i)+value(j), i, j)
		}
	}
	if count == 0 {
		for k := range answers[:min(len(answers), combined)] {
			i := int32(k)
			left := room - length(i)
			if left <= 0 {
				continue
			}
			for j := range i {
				if m, ok := found(left - length(j)); ok && m != i && m != j {
					take(value(i)+value(j)+value(m), i, j, m)
				}
			}
		}
	}
	return f.chosen[:count]
}
