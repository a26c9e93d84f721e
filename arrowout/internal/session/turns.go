package session

import "slices"

// This file decides which waiting stream gets bytes of a budget. All functions are called with the budget's mu held.

// The lines of a share: for the first batch of a stream, and for further ones.
const (
	firstLine = iota
	aheadLine
	lines
)

func lineOf(h *hold) int {
	if h.bytes > 0 {
		return aheadLine
	}
	return firstLine
}

// join adds a stream to a line of its share, unless it is stalled. leave removes it.
func (b *budget) join(w *wait) {
	w.hold.wait = w
	if w.in = nil; w.hold.stalled {
		return
	}
	w.in, w.line = w.hold.share, lineOf(w.hold)
	if w.in.waiting() == 0 {
		c := b.class(w.in)
		c.turns = append(c.turns, w.in)
	}
	w.in.waits[w.line] = append(w.in.waits[w.line], w)
	if w.line == firstLine && w.hold.taken > 0 {
		i := len(b.readers)
		for i > 0 && w.hold.established() && !b.readers[i-1].hold.established() {
			i--
		}
		b.readers = slices.Insert(b.readers, i, w)
	}
}

func (b *budget) leave(w *wait) {
	if w.hold.wait != w {
		return
	}
	w.hold.wait = nil
	if w.in == nil {
		return
	}
	if i := slices.Index(b.readers, w); i >= 0 {
		b.readers = slices.Delete(b.readers, i, i+1)
	}
	line := &w.in.waits[w.line]
	i := slices.Index(*line, w)
	*line = slices.Delete(*line, i, i+1)
	if w.in.waiting() == 0 {
		c := b.class(w.in)
		i := slices.Index(c.turns, w.in)
		c.turns = slices.Delete(c.turns, i, i+1)
	}
}

func (s *share) waiting() int { return len(s.waits[firstLine]) + len(s.waits[aheadLine]) }

// grant grants waiting streams their bytes, as far as bytes are available.
func (b *budget) grant() {
	if w := b.grantTurns(); w != nil && w.bytes > b.common() {
		return // it also needs the bytes of the reserve
	}
	for i := 0; i < len(b.readers); {
		w := b.readers[i]
		if w.in.spare > 0 || b.spare+w.bytes > b.reserveOf(w) || b.held+w.bytes > b.available() {
			i++
			continue
		}
		w.spare = true
		b.assign(w)
	}
}

// grantTurns grants waiting streams their bytes in turn, without the reserve. It returns the next stream if the
// budget has too few bytes for it, otherwise nil.
func (b *budget) grantTurns() *wait {
	for again := true; again; {
		again = false
		for _, turns := range []*[]*share{&b.fresh.turns, &b.proven.turns} {
			i, w := b.next(*turns)
			if w == nil || b.freshFull(w) && !b.passes(w) {
				continue
			}
			if b.full(w) {
				return w
			}
			s := w.in
			*turns = append(slices.Delete(*turns, i, i+1), s) // move it to the end
			b.assign(w)
			again = true
		}
	}
	return nil
}

// assign grants a stream the bytes that it waits for.
func (b *budget) assign(w *wait) {
	b.leave(w)
	b.charge(w.hold, w.bytes, w.spare)
	close(w.ready)
}

// next returns the first stream in turn whose share may have its bytes.
func (b *budget) next(turns []*share) (int, *wait) {
	for i, s := range turns {
		for _, line := range s.waits {
			if len(line) > 0 && (b.passes(line[0]) || !b.shareFull(line[0])) {
				return i, line[0]
			}
		}
	}
	return 0, nil
}

// common returns the bytes available for batches, without the reserve.
func (b *budget) common() int64 { return b.available() / 8 * 7 }

// reserve returns the bytes that only streams whose readers read may use.
func (b *budget) reserve() int64 { return b.available() - b.common() }

// reserveOf returns how many bytes of the reserve may be in use after a grant to a stream.
func (b *budget) reserveOf(w *wait) int64 {
	if w.hold.established() {
		return b.reserve()
	}
	return b.reserve() / 2
}

// established reports whether the reader of a stream has taken many batches.
func (h *hold) established() bool { return h.taken >= establishedAfter }

// full reports whether the budget has too few bytes for a stream.
func (b *budget) full(w *wait) bool { return b.held > 0 && b.held-b.spare+w.bytes > b.common() }

// passes reports whether a batch is the first one of its share and so exempt from the limits of identity and class.
func (b *budget) passes(w *wait) bool {
	return w.line == firstLine && w.in.held == 0 && b.held-b.spare+w.bytes <= b.available()/16*13
}

// freshFull reports whether the class of unproven streams has reached its limit.
func (b *budget) freshFull(w *wait) bool {
	return !w.in.proven && b.fresh.held > 0 && b.fresh.held+w.bytes > b.freshSize()
}

func (b *budget) freshSize() int64 { return b.available() / 8 * 5 }

// shareFull reports whether a share, or its identity, has reached its limit.
func (b *budget) shareFull(w *wait) bool {
	s, room := w.in, b.room(w)
	if w.line == aheadLine {
		room /= 2
	}
	return s.held > 0 && s.held+w.bytes > room || b.identityFull(w)
}

// identityFull reports whether an identity has reached its limit.
func (b *budget) identityFull(w *wait) bool { return b.class(w.in).of[w.in.who] > 0 && b.room(w) < 0 }

// room returns what an identity could still take after a grant to its stream.
func (b *budget) room(w *wait) int64 {
	leaves := b.common() - (b.held - b.spare)
	if !w.in.proven {
		leaves = min(leaves, b.freshSize()-b.fresh.held)
	}
	return othersShare*(leaves-w.bytes) - b.class(w.in).of[w.in.who] - w.bytes
}
