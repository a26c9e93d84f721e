// Package shuffle mixes a stream of atoms in bounded memory: it emits every atom once, in another order.
//
// It is pure: the order depends only on the configuration and on the calls so far. Every draw is a hash of (seed,
// purpose, index), and the index is part of the state.
package shuffle

// MaxWaitWindows bounds the wait of an atom: it leaves at the latest when this many windows of later atoms have been
// added. Uniform draws alone make the wait geometric and unbounded, and a buffered atom holds back the low watermark of
// the stream. At 4 windows one atom in e^4 = 55 leaves by the bound, the others by the draw.
const MaxWaitWindows = 4

// Window is a windowed shuffle. Once Config.Window atoms are buffered, each added atom replaces one that is drawn
// uniformly, or the best of several drawn atoms ([Window.Prefer]).
//
//   - invariant 1: every atom leaves exactly once.
//   - invariant 2: at most Config.Window atoms are buffered.
//   - invariant 3: no atom waits for more than Patience * Config.Window later atoms.
//   - invariant 4: the order depends only on the configuration and the calls; a window restored from AppendState
//     continues like the one that wrote the state.
//
// It is not safe for concurrent use.
type Window[T any] struct {
	config Config
	key    Key
	added  uint64 // atoms added
	draws  uint64 // index of the next draw
	slots  []slot[T]
	cost   func(*T) float64 // nil: one atom is drawn
	// The slots also form a list in order of arrival, for access to the oldest in constant time.
	oldest, newest int32
}

type slot[T any] struct {
	atom         T
	arrived      uint64 // value of added when the atom was added
	older, newer int32  // neighbours in order of arrival, none at the ends
}

const none = -1

// New returns an empty window. The configuration must be valid.
func New[T any](c Config) *Window[T] {
	return &Window[T]{config: c, key: NewKey(c.Seed, "shuffle"), oldest: none, newest: none}
}

// drawChoices is the number of atoms drawn if a cost is set.
const drawChoices = 8

// SetCost makes the window draw several atoms instead of one. The atom with the lowest cost leaves; of equal ones, the
// first. cost may read state outside the window if that state also depends only on the calls (invariant 4). cost is
// not part of the window's state.
func (w *Window[T]) SetCost(cost func(*T) float64) { w.cost = cost }

// chooseSlot draws one of the first n slots.
func (w *Window[T]) chooseSlot(n int) int {
	i := w.drawIndex(n)
	if w.cost == nil {
		return i
	}
	least := w.cost(&w.slots[i].atom)
	for range drawChoices - 1 {
		j := w.drawIndex(n)
		if x := w.cost(&w.slots[j].atom); x < least {
			i, least = j, x
		}
	}
	return i
}

// Add adds the next atom. If the window is full, it calls emit once, with the atom that leaves.
func (w *Window[T]) Add(atom T, emit func(T)) {
	w.added++
	if w.config.Window <= 1 {
		emit(atom)
		return
	}
	if len(w.slots) < w.config.Window {
		w.slots = append(w.slots, slot[T]{})
		w.fillSlot(int32(len(w.slots)-1), atom)
		return
	}
	// Atoms are added one at a time, so at most one reaches the bound at a time: invariant 3.
	i := w.oldest
	if w.added-w.slots[i].arrived < MaxWaitWindows*uint64(w.config.Window) {
		i = int32(w.chooseSlot(len(w.slots)))
	}
	leaving := w.slots[i].atom
	w.unlinkSlot(i)
	w.fillSlot(i, atom)
	emit(leaving)
}

// Buffer adds the next atom without emitting one, for any number of buffered atoms. It may only be used before a
// Flush, which then chooses among all of them. Until then invariants 2 and 3 do not hold.
func (w *Window[T]) Buffer(atom T) {
	w.added++
	w.slots = append(w.slots, slot[T]{})
	w.fillSlot(int32(len(w.slots)-1), atom)
}

// Flush emits all buffered atoms, in drawn order.
func (w *Window[T]) Flush(emit func(T)) {
	for n := len(w.slots); n > 0; n-- {
		i := w.chooseSlot(n)
		atom := w.slots[i].atom
		w.slots[i] = w.slots[n-1]
		w.slots[n-1] = slot[T]{}
		emit(atom)
	}
	w.slots = w.slots[:0]
	w.oldest, w.newest = none, none
}

// Len returns the number of buffered atoms.
func (w *Window[T]) Len() int { return len(w.slots) }

// Each visits all buffered atoms, in no particular order.
func (w *Window[T]) Each(f func(T)) {
	for i := range w.slots {
		f(w.slots[i].atom)
	}
}

// Update lets f change all buffered atoms, in no particular order.
func (w *Window[T]) Update(f func(*T)) {
	for i := range w.slots {
		f(&w.slots[i].atom)
	}
}

func (w *Window[T]) drawIndex(n int) int {
	i := w.key.IntN(w.draws, n)
	w.draws++
	return i
}

// fillSlot puts the latest atom into slot i.
func (w *Window[T]) fillSlot(i int32, atom T) {
	w.slots[i] = slot[T]{atom, w.added, w.newest, none}
	if w.newest == none {
		w.oldest = i
	} else {
		w.slots[w.newest].newer = i
	}
	w.newest = i
}

// unlinkSlot removes slot i from the order of arrival.
func (w *Window[T]) unlinkSlot(i int32) {
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
