package packonline

// Filling a row with more than three pieces: while much room is left, the oldest pieces are taken. Once a few more
// pieces suffice, those that fill the row exactly are searched for.

// closely is the limit of much room, in mean lengths of buffered pieces.
const closely = 4

// misfits is the maximum number of pieces that are passed over because they do not fit, per class and row.
const misfits = 64

// alone reports whether no other piece fits into any row with a piece of length n.
func (p *bucket) alone(n int32) bool { return p.stock.lengths.From(1) > p.longest-n }

// exact emits a full row around the oldest piece of length n, tight or not, and reports whether such a row exists.
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

// triples is the number of pieces that are tried as the first of three. It is small, because short pieces complete
// others alone.
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

// approach takes the oldest pieces that fit until room is at most much, and returns the remaining room. Pieces that
// need a row of this class are taken before those that a shorter row would hold.
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

// share is a number of tokens as a fraction of another number.
type share struct{ part, of int32 }

func (s share) less(t share) bool { return int64(s.part)*int64(t.of) < int64(t.part)*int64(s.of) }

// little is the reciprocal of the share of padding that does not justify a longer row.
const little = 128

// leastPadding returns the padding and the length of a row around the oldest piece of length n. It is the shortest
// row with little padding, else the row with the smallest share of padding. Without credit the padding is guessed.
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

// addLongest takes the longest fitting pieces one after the other, and returns the remaining room.
func (p *bucket) addLongest(room int32) int32 {
	for n := p.stock.atMost(room); n != none; n = p.stock.atMost(room) {
		p.take(n)
		room -= n
	}
	return room
}

// fewer is the maximum number of tokens of padding, from 0 on, that are tried before the longest fitting pieces are
// used.
const fewer = 16

// pad emits a padded row around the oldest piece of length n.
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
