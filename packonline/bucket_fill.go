package packonline

// Filling a row with more than three pieces: while much room is left, the oldest pieces are taken. Once a few more
// pieces suffice, those that fill the row exactly are searched for.

// muchRoom is the limit of much room, in mean lengths of buffered pieces.
const muchRoom = 4

// maxMisfits is the maximum number of pieces that are passed over because they do not fit, per class and row.
const maxMisfits = 64

// hasNoPartner reports whether no other piece fits into any row with a piece of length n.
func (p *bucket) hasNoPartner(n int32) bool {
	return p.pool.lengths.From(1) > p.longest-n || p.config.MaxDocumentsPerRow == 1
}

// emitExact emits a full row around the oldest piece of length n, tight or not, and reports whether such a row exists.
func (p *bucket) emitExact(n int32, out *Rows) bool {
	if p.hasNoPartner(n) || p.pool.isOutOfCredit() {
		return false
	}
	p.addOldest(n)
	class := bucketFor(p.lengths, n)
	if l := p.addSimilarPair(n); l > 0 {
		p.emit(l, out)
		return true
	}
	for k, l := range p.lengths[class:] {
		if p.pool.isOutOfCredit() {
			break
		}
		if p.fillExactly(l-n, class+k) {
			p.emit(l, out)
			return true
		}
		p.putBack(1)
	}
	p.putBack(0)
	return false
}

func (p *bucket) fillExactly(room int32, class int) bool {
	if p.hasLittleRoom(room) && p.addFew(room) {
		return true
	}
	mean := p.pool.meanLength()
	for much := muchRoom * mean; much >= mean && !p.pool.isOutOfCredit(); much /= 2 {
		if room > much {
			if room = p.addOldestUntil(room, much, class); p.addFew(room) {
				return true
			}
		}
	}
	return false
}

// maxTripleTries is the number of pieces that are tried as the first of three. It is small, because short pieces
// complete others alone.
const maxTripleTries = 4

// addFew fills room exactly with one, two or three pieces.
func (p *bucket) addFew(room int32) bool {
	if p.addOne(room) || p.addTwo(room, 1, room/2) {
		return true
	}
	at := len(p.row)
	if p.documentsLeft(len(p.row)) < 3 {
		return false
	}
	n := room - 2
	for range maxTripleTries {
		if p.pool.isOutOfCredit() {
			return false
		}
		if n = p.pool.longestAtMost(n); n == none {
			return false
		}
		p.addOldest(n)
		if p.addTwo(room-n, 1, (room-n)/2) {
			return true
		}
		p.putBack(at)
		n--
	}
	return false
}

// addOldestUntil takes the oldest pieces that fit until room is at most much, and returns the remaining room. Pieces
// that need a row of this class are taken before those that a shorter row would hold. With a bound on documents, pieces
// too short to fill room with as many as the bound permits are passed over too.
func (p *bucket) addOldestUntil(room, much int32, class int) int32 {
	for ; class >= 0; class-- {
		l := p.pool.classList(class)
		passed := 0
		for i := l.first; i != none && passed < maxMisfits; {
			if room <= much || p.pool.isOutOfCredit() {
				return room
			}
			next := p.pool.newerItem(l, i)
			n := p.pool.items[i].length
			if enough := int64(n)*int64(p.documentsLeft(len(p.row))) >= int64(room); n < room && enough {
				p.addOldest(n)
				room -= n
			} else {
				passed++
				p.pool.spendCredit(1)
			}
			i = next
		}
	}
	return room
}

// fraction is a number of tokens as a fraction of another number.
type fraction struct{ part, of int32 }

func (s fraction) less(t fraction) bool { return int64(s.part)*int64(t.of) < int64(t.part)*int64(s.of) }

// littlePadding is the reciprocal of the share of padding that does not justify a longer row.
const littlePadding = 128

// leastPadding returns the padding and the length of a row around the oldest piece of length n. It is the shortest
// row with little padding, else the row with the smallest share of padding. Without credit the padding is guessed.
func (p *bucket) leastPadding(n int32) (best fraction) {
	class := bucketFor(p.lengths, n)
	if p.hasNoPartner(n) {
		return fraction{p.lengths[class] - n, p.lengths[class]}
	}
	guess := p.pool.isOutOfCredit()
	if guess {
		p.pool.counts[n]--
		defer func() { p.pool.counts[n]++ }()
	} else {
		p.addOldest(n)
		defer p.putBack(0)
	}
	for k, l := range p.lengths[class:] {
		s := fraction{of: l}
		if guess {
			s.part = p.pool.guessRoom(l-n, p.documentsLeft(1))
		} else {
			s.part = p.addLongest(p.addOldestUntil(l-n, muchRoom*p.pool.meanLength(), class+k))
			p.putBack(1)
		}
		if best.of == 0 || s.less(best) {
			best = s
		}
		if s.part <= l/littlePadding {
			break
		}
	}
	return best
}

// addLongest takes the longest fitting pieces one after the other, and returns the remaining room.
func (p *bucket) addLongest(room int32) int32 {
	for n := p.pool.longestAtMost(room); n != none && p.documentsLeft(len(p.row)) > 0; n = p.pool.longestAtMost(room) {
		p.addOldest(n)
		room -= n
	}
	return room
}

// maxExactPadding is the maximum number of tokens of padding, from 0 on, that are tried before the longest fitting
// pieces are used.
const maxExactPadding = 16

// emitPadded emits a padded row around the oldest piece of length n.
func (p *bucket) emitPadded(n int32, out *Rows) {
	best := p.leastPadding(n)
	p.addOldest(n)
	p.pool.minCredit = -creditPadding
	room := p.addOldestUntil(best.of-n, muchRoom*p.pool.meanLength(), bucketFor(p.lengths, best.of))
	few := false
	for padding := int32(0); padding < min(best.part, maxExactPadding) && !few && !p.pool.isOutOfCredit(); padding++ {
		few = p.addFew(room - padding)
	}
	p.pool.minCredit = 0
	if !few {
		p.addLongest(room)
	}
	p.emit(best.of, out)
}
