package shuffle

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// stateVersion is the version of the format of AppendState:
//
//	version byte, then uvarints: window, seed, atoms added, draws made, buffered atoms, and for each of these in slot
//	order: the number of atoms added after it (uvarint), and the atom as appendAtom wrote it.
const stateVersion = 1

// AppendState appends the complete state of the window to b. appendAtom appends one atom and returns the longer slice.
func (w *Window[T]) AppendState(b []byte, appendAtom func([]byte, T) []byte) []byte {
	b = append(b, stateVersion)
	b = binary.AppendUvarint(b, uint64(w.config.Window))
	b = binary.AppendUvarint(b, w.config.Seed)
	b = binary.AppendUvarint(b, w.added)
	b = binary.AppendUvarint(b, w.draws)
	b = binary.AppendUvarint(b, uint64(len(w.slots)))
	for i := range w.slots {
		b = binary.AppendUvarint(b, w.added-w.slots[i].arrived)
		b = appendAtom(b, w.slots[i].atom)
	}
	return b
}

// RestoreState replaces the state of the window with one that AppendState wrote with the same configuration, and
// returns the bytes after it. readAtom reads one atom and returns the bytes after it. After an error the window is
// unchanged.
func (w *Window[T]) RestoreState(b []byte, readAtom func([]byte) (T, []byte, error)) (rest []byte, err error) {
	restored, rest, err := readState(w.config, b, readAtom)
	if err != nil {
		return nil, fmt.Errorf("restore shuffle window: %w", err)
	}
	restored.cost = w.cost
	*w = *restored
	return rest, nil
}

var errTruncated = errors.New("state is cut short")

func readState[T any](c Config, b []byte, readAtom func([]byte) (T, []byte, error)) (*Window[T], []byte, error) {
	if len(b) == 0 {
		return nil, nil, errTruncated
	}
	if b[0] != stateVersion {
		return nil, nil, fmt.Errorf("state has format version %d, this program reads %d", b[0], stateVersion)
	}
	b = b[1:]
	var head [5]uint64
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, nil, errTruncated
		}
		head[i], b = v, b[n:]
	}
	window, seed, added, draws, waiting := head[0], head[1], head[2], head[3], head[4]
	if window != uint64(c.Window) {
		return nil, nil, fmt.Errorf("state has a window of %d atoms, the configuration %d", window, c.Window)
	}
	if seed != c.Seed {
		return nil, nil, fmt.Errorf("state has seed %d, the configuration %d", seed, c.Seed)
	}
	w := New[T](c)
	w.added, w.draws = added, draws
	if window <= 1 {
		window = 0
	}
	if waiting > window || waiting > added || waiting > uint64(len(b)) {
		return nil, nil, fmt.Errorf("state claims %d waiting atoms, more than can be", waiting)
	}
	for range waiting {
		later, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, nil, errTruncated
		}
		if later >= added || later >= MaxWaitWindows*window {
			return nil, nil, fmt.Errorf("atom has waited for %d later ones, more than can be", later)
		}
		atom, behind, err := readAtom(b[n:])
		if err != nil {
			return nil, nil, fmt.Errorf("read atom %d of %d: %w", len(w.slots), waiting, err)
		}
		b = behind
		w.slots = append(w.slots, slot[T]{atom: atom, arrived: added - later})
	}
	return w, b, w.linkByArrival()
}

// linkByArrival rebuilds the order of arrival.
func (w *Window[T]) linkByArrival() error {
	order := make([]int32, len(w.slots))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(w.slots[i].arrived, w.slots[j].arrived) })
	for k, i := range order {
		w.slots[i].older, w.slots[i].newer = w.newest, none
		if k == 0 {
			w.oldest = i
		} else {
			older := &w.slots[w.newest]
			if older.arrived == w.slots[i].arrived {
				return fmt.Errorf("two buffered atoms have number %d", older.arrived)
			}
			older.newer = i
		}
		w.newest = i
	}
	return nil
}
