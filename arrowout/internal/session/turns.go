package session

import "slices"

// Who of those that wait for a budget gets its bytes. All of it is called with the budget's mu held.

// The lines of a share: for the first batch of a stream, for further ones.
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

// join puts a stream in the line of its share in which it waits, unless it is stalled; leave takes it out if it is in
// one.
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

// grant gives those who wait their bytes, as far as there are any.
func (b *budget) grant() {
	if w := b.grantTurns(); w != nil && w.bytes > b.common() {
		return // it needs what the reserve has, too
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

// grantTurns gives those their bytes that may have them in turn, without the reserve. It returns the one that lacks
// bytes, if any does.
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
			*turns = append(slices.Delete(*turns, i, i+1), s) // it is the last one now
			b.assign(w)
			again = true
		}
	}
	return nil
}

// assign gives a stream the bytes that it waits for.
func (b *budget) assign(w *wait) {
	b.leave(w)
	b.charge(w.hold, w.bytes, w.spare)
	close(w.ready)
}

// next is the first in its turn whose share may have its bytes.
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

// common is what batches may take without the reserve.
func (b *budget) common() int64 { return b.available() / 8 * 7 }

// reserve is what only streams may take whose readers read.
func (b *budget) reserve() int64 { return b.available() - b.common() }

// reserveOf is as far as a stream may fill the reserve.
func (b *budget) reserveOf(w *wait) int64 {
	if w.hold.established() {
		return b.reserve()
	}
	return b.reserve() / 2
}

// established says that the reader of a stream has taken many batches.
func (h *hold) established() bool { return h.taken >= establishedAfter }

// full says that there is not as much as a stream waits for.
func (b *budget) full(w *wait) bool { return b.held > 0 && b.held-b.spare+w.bytes > b.common() }

// passes says that a batch is the first one of its share, and that the limits of identity and class do not count for
// it.
func (b *budget) passes(w *wait) bool {
	return w.line == firstLine && w.in.held == 0 && b.held-b.spare+w.bytes <= b.available()/16*13
}

// freshFull says that streams that are not proven hold what they may.
func (b *budget) freshFull(w *wait) bool {
	return !w.in.proven && b.fresh.held > 0 && b.fresh.held+w.bytes > b.freshSize()
}

func (b *budget) freshSize() int64 { return b.available() / 8 * 5 }

// shareFull says that a share, or its identity, holds what it may.
func (b *budget) shareFull(w *wait) bool {
	s, room := w.in, b.room(w)
	if w.line == aheadLine {
		room /= 2
	}
	return s.held > 0 && s.held+w.bytes > room || b.identityFull(w)
}

// identityFull says that an identity holds what it may.
func (b *budget) identityFull(w *wait) bool { return b.class(w.in).of[w.in.who] > 0 && b.room(w) < 0 }

// room is what an identity could take behind what a stream of it waits for.
func (b *budget) room(w *wait) int64 {
	leaves := b.common() - (b.held - b.spare)
	if !w.in.proven {
		leaves = min(leaves, b.freshSize()-b.fresh.held)
	}
	return othersShare*(leaves-w.bytes) - b.class(w.in).of[w.in.who] - w.bytes
}
