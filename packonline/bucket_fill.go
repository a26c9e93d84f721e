package packonline

// Filling a row with more than three pieces: the oldest ones while there is much room, and when a few more are enough,
// those that fill it exactly.

// closely is how much room, in mean lengths of waiting pieces, is much.
const closely = 4

// misfits is how many pieces that do not fit are passed over, in each class, for one row.
const misfits = 64

// alone reports whether nothing else fits any row beside a piece of length n.
func (p *bucket) alone(n int32) bool { return p.stock.lengths.From(1) > p.longest-n }

// exact emits a full row around the oldest piece of length n, whether it is tight or not, and reports whether there is
// one.
func (p *bucket) exact(n int32, out *Rows) bool {
	if p.alone(n) || p.stock.broke() {
		return false
	}
	p.take(n)
	class := bucketFor(p.lengths, n)
	if l := p.addAlike(n); l > 0 {
		p.emit(l, out)
		return true
	}
	for k, l := range p.lengths[class:] {
		if p.stock.broke() {
			break
		}
		if p.fill(l-n, class+k) {
			p.emit(l, out)
			return true
		}
		p.putBack(1)
	}
	p.putBack(0)
	return false
}

func (p *bucket) fill(room int32, class int) bool {
	if p.near(room) && p.addFew(room) {
		return true
	}
	mean := p.stock.mean()
	for much := closely * mean; much >= mean && !p.stock.broke(); much /= 2 {
		if room > much {
			if room = p.approach(room, much, class); p.addFew(room) {
				return true
			}
		}
	}
	return false
}

// triples is how many pieces are tried as the first of three. Few, for short pieces are what completes others alone.
const triples = 4

// addFew fills room exactly with one, two or three pieces.
func (p *bucket) addFew(room int32) bool {
	if p.addOne(room) || p.addTwo(room, 1, room/2) {
		return true
	}
	at := len(p.row)
	n := room - 2
	for range triples {
		if p.stock.broke() {
			return false
		}
		if n = p.stock.atMost(n); n == none {
			return false
		}
		p.take(n)
		if p.addTwo(room-n, 1, (room-n)/2) {
			return true
		}
		p.putBack(at)
		n--
	}
	return false
}

// approach takes pieces that fit, the oldest ones, until room is not much, and returns what is left of it. Pieces that
// need a row of this class come before those that a shorter row would hold.
func (p *bucket) approach(room, much int32, class int) int32 {
	for ; class >= 0; class-- {
		l := p.stock.need(class)
		passed := 0
		for i := l.first; i != none && passed < misfits; {
			if room <= much || p.stock.broke() {
				return room
			}
			next := p.stock.newer(l, i)
			if n := p.stock.items[i].length; n < room {
				p.take(n)
				room -= n
			} else {
				passed++
				p.stock.spend(1)
			}
			i = next
		}
	}
	return room
}

// share is a number of tokens as a part of others.
type share struct{ part, of int32 }

func (s share) less(t share) bool { return int64(s.part)*int64(t.of) < int64(t.part)*int64(s.of) }

// little is a share of padding that is not worth a longer row: 1 / little.
const little = 128

// leastPadding returns how much of which row around the oldest piece of length n would be padding: of the shortest one
// in which that is little, else of the one in which it is least. Without credit that is guessed.
func (p *bucket) leastPadding(n int32) (best share) {
	class := bucketFor(p.lengths, n)
	if p.alone(n) {
		return share{p.lengths[class] - n, p.lengths[class]}
	}
	guess := p.stock.broke()
	if guess {
		p.stock.counts[n]--
		defer func() { p.stock.counts[n]++ }()
	} else {
		p.take(n)
		defer p.putBack(0)
	}
	for k, l := range p.lengths[class:] {
		s := share{of: l}
		if guess {
			s.part = p.stock.guess(l - n)
		} else {
			s.part = p.addLongest(p.approach(l-n, closely*p.stock.mean(), class+k))
			p.putBack(1)
		}
		if best.of == 0 || s.less(best) {
			best = s
		}
		if s.part <= l/little {
			break
		}
	}
	return best
}

// addLongest takes the longest pieces that fit, one after the other, and returns the room that is left.
func (p *bucket) addLongest(room int32) int32 {
	for n := p.stock.atMost(room); n != none; n = p.stock.atMost(room) {
		p.take(n)
		room -= n
	}
	return room
}

// fewer is how many tokens of padding, from 0 on, are tried before a row is padded by what the longest pieces leave.
const fewer = 16

// pad emits a row around the oldest piece of length n that nothing completes.
func (p *bucket) pad(n int32, out *Rows) {
	best := p.leastPadding(n)
	p.take(n)
	p.stock.owed = -creditPadding
	room := p.approach(best.of-n, closely*p.stock.mean(), bucketFor(p.lengths, best.of))
	few := false
	for padding := int32(0); padding < min(best.part, fewer) && !few && !p.stock.broke(); padding++ {
		few = p.addFew(room - padding)
	}
	p.stock.owed = 0
	if !few {
		p.addLongest(room)
	}
	p.emit(best.of, out)
}
