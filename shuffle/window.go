// Package shuffle mixes a stream of atoms in bounded memory: atoms go in, the same atoms come out in another order.
//
// It is pure: the order is a function of the configuration and of the calls made so far. Every draw is hashed from
// (seed, purpose, index), and the index is part of the state.
package shuffle

// Patience bounds the wait of an atom: it leaves at the latest when this many windows of later atoms have come. A
// uniform draw alone makes the wait geometric, without a bound, and whatever waits holds back the floor of the stream.
// At 4 windows one atom in e^4 = 55 leaves by the bound, the others by the draw.
const Patience = 4

// Window is a windowed shuffle. Once Config.Window atoms wait, each new atom drives out a waiting one that is
// drawn uniformly, or the best of several that are drawn ([Window.Prefer]).
//
//   - invariant 1: every atom leaves exactly once.
//   - invariant 2: at most Config.Window atoms wait.
//   - invariant 3: no atom waits for more than Patience * Config.Window later atoms.
//   - invariant 4: the order follows from the configuration and the calls alone; a window restored from AppendState
//     goes on as the
//     one that wrote it.
//
// It is not safe for concurrent use.
type Window[T any] struct {
	config Config
	key    Key
	added  uint64 // atoms that came
	draws  uint64 // index of the next draw
	slots  []slot[T]
	cost   func(*T) float64 // nil: one atom is drawn
	// The slots also form a list in order of arrival, so that the oldest is at hand.
	oldest, newest int32
}

type slot[T any] struct {
	atom         T
	arrived      uint64 // value of added when it came
	older, newer int32  // neighbours in order of arrival, none at the ends
}

const none = -1

// New returns an empty window. The configuration must be valid.
func New[T any](c Config) *Window[T] {
	return &Window[T]{config: c, key: NewKey(c.Seed, "shuffle"), oldest: none, newest: none}
}

// choices is how many atoms are drawn where some are better than others.
const choices = 8

// Prefer lets the window draw several atoms instead of one: the one of the least cost leaves, of equal ones the first.
// cost may read what is outside the window if that follows from the calls too (invariant 4). It is not a part of the
// state.
func (w *Window[T]) Prefer(cost func(*T) float64) { w.cost = cost }

// choose draws one of the first n atoms that wait.
func (w *Window[T]) choose(n int) int {
	i := w.draw(n)
	if w.cost == nil {
		return i
	}
	least := w.cost(&w.slots[i].atom)
	for range choices - 1 {
		j := w.draw(n)
		if x := w.cost(&w.slots[j].atom); x < least {
			i, least = j, x
		}
	}
	return i
}

// Add takes the next atom. When the window is full it calls emit once, with the atom that leaves.
func (w *Window[T]) Add(atom T, emit func(T)) {
	w.added++
	if w.config.Window <= 1 {
		emit(atom)
		return
	}
	if len(w.slots) < w.config.Window {
		w.slots = append(w.slots, slot[T]{})
		w.enter(int32(len(w.slots)-1), atom)
		return
	}
	// One atom comes at a time, so at most one reaches the bound at a time: invariant 3.
	i := w.oldest
	if w.added-w.slots[i].arrived < Patience*uint64(w.config.Window) {
		i = int32(w.choose(len(w.slots)))
	}
	leaving := w.slots[i].atom
	w.leave(i)
	w.enter(i, atom)
	emit(leaving)
}

// Gather takes the next atom without driving one out, however many wait. It comes before a Flush alone, which then
// chooses among all of them: until then invariants 2 and 3 do not hold.
func (w *Window[T]) Gather(atom T) {
	w.added++
	w.slots = append(w.slots, slot[T]{})
	w.enter(int32(len(w.slots)-1), atom)
}

// Flush emits every atom that waits, in drawn order.
func (w *Window[T]) Flush(emit func(T)) {
	for n := len(w.slots); n > 0; n-- {
		i := w.choose(n)
		atom := w.slots[i].atom
		w.slots[i] = w.slots[n-1]
		w.slots[n-1] = slot[T]{}
		emit(atom)
	}
	w.slots = w.slots[:0]
	w.oldest, w.newest = none, none
}

// Len returns the number of atoms that wait.
func (w *Window[T]) Len() int { return len(w.slots) }

// Each visits every atom that waits, in no particular order.
func (w *Window[T]) Each(f func(T)) {
	for i := range w.slots {
		f(w.slots[i].atom)
	}
}

func (w *Window[T]) draw(n int) int {
	i := w.key.Below(w.draws, n)
	w.draws++
	return i
}

// enter puts the atom that came last into slot i.
func (w *Window[T]) enter(i int32, atom T) {
	w.slots[i] = slot[T]{atom, w.added, w.newest, none}
	if w.newest == none {
		w.oldest = i
	} else {
		w.slots[w.newest].newer = i
	}
	w.newest = i
}

// leave takes slot i out of the order of arrival.
func (w *Window[T]) leave(i int32) {
	older, newer := w.slots[i].older, w.slots[i].newer
	if older == none {
		w.oldest = newer
	} else {
		w.slots[older].newer = newer
	}
	if newer == none {
		w.newest = older
	} else {
		w.slots[newer].older = older
	}
}
