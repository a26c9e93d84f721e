package planrecord

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"loaderd/loader/internal/codec"
)

// DefaultKeeper is the keeper of a commit that names none.
const DefaultKeeper = "trainer"

// MaxKeepers bounds how many keepers a run may have, and maxKeeperName the bytes of a name.
const (
	MaxKeepers    = 256
	maxKeeperName = 64
)

// Keepers are clients with durable checkpoints of their own: a trainer, an evaluator that follows it. Each name has the
// step before which its checkpoints cover all. The lowest of these steps counts: what its keeper may still ask for is
// kept.
type Keepers map[string]uint64

// Committed returns the step before which every keeper's checkpoint covers all, 0 without keepers.
func (k Keepers) Committed() uint64 {
	if len(k) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(k)))
}

// After returns where a keeper stands after it has committed a step. It never goes back: a step below the keeper's last
// one changes nothing.
func (k Keepers) After(c Commit) (step uint64, changes bool) {
	before, known := k[c.Keeper]
	step = max(c.Step, before)
	return step, !known || step != before
}

// Changed returns the keepers behind the record of a commit or a leave.
func (k Keepers) Changed(e Entry) Keepers {
	out := maps.Clone(k)
	switch e := e.(type) {
	case Commit:
		out[e.Keeper], _ = k.After(e)
	case Leave:
		delete(out, e.Keeper)
	}
	return out
}

// ValidKeeper refuses names that are no keepers'.
func ValidKeeper(name string) error { return validName("keeper", name, maxKeeperName) }

func validName(whose, name string, most int) error {
	if len(name) < 1 || len(name) > most {
		return fmt.Errorf("a %s's name has 1 to %d bytes, this one %d", whose, most, len(name))
	}
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("a %s's name is printable ASCII, %q is not", whose, name)
		}
	}
	return nil
}

func readKeeper(r *codec.Cursor) string {
	name := string(r.Bytes(int(r.Bounded(maxKeeperName))))
	if err := ValidKeeper(name); err != nil {
		r.Fail(err)
	}
	return name
}

// appendState writes the keepers in the order of their names.
func (k Keepers) appendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(k)))
	for _, name := range slices.Sorted(maps.Keys(k)) {
		b = codec.AppendString(b, name)
		b = binary.AppendUvarint(b, k[name])
	}
	return b
}

func readKeepers(r *codec.Cursor) Keepers {
	k := Keepers{}
	for range r.Bounded(MaxKeepers) {
		name := readKeeper(r)
		step := r.Uvarint()
		if r.Err != nil {
			break
		}
		k[name] = step
	}
	return k
}
