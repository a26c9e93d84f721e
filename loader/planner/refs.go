package planner

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
)

// refs maps arrivals of buffered documents to the documents. The planner counts in arrivals, steps name documents.
//
// young holds all recent arrivals. Of earlier arrivals, old holds those that were buffered at the last sweep.
type refs struct {
	old   []arrived // ascending
	first uint64    // arrival of young[0]
	young []uint64
	limit int // of young, at which a sweep is due
}

type arrived struct{ arrival, ref uint64 }

// minYoung is the minimum number of arrivals between two sweeps.
const minYoung = 16384

func newRefs(first uint64) *refs { return &refs{first: first, limit: minYoung} }

// add notes the next arrival.
func (r *refs) add(ref uint64) { r.young = append(r.young, ref) }

// of returns the document of an arrival that is still buffered.
func (r *refs) of(arrival uint64) uint64 {
	if arrival >= r.first {
		return r.young[arrival-r.first]
	}
	i, _ := slices.BinarySearchFunc(r.old, arrival, func(a arrived, b uint64) int { return cmp.Compare(a.arrival, b) })
	return r.old[i].ref
}

// has reports whether the document of an arrival is known.
func (r *refs) has(arrival uint64) bool {
	if arrival >= r.first {
		return arrival-r.first < uint64(len(r.young))
	}
	_, ok := slices.BinarySearchFunc(r.old, arrival, func(a arrived, b uint64) int { return cmp.Compare(a.arrival, b) })
	return ok
}

// due reports whether a sweep is due.
func (r *refs) due() bool { return len(r.young) >= r.limit }

// sweep removes the arrivals in the older half of young that are no longer buffered. Most buffered documents arrived
// recently, and stay in the other half, where lookup takes constant time. A sweep is due when as many documents have
// arrived as were buffered at the last one, so its amortized cost per arrival is constant.
func (r *refs) sweep(waiting []uint64) {
	n := len(r.young) / 2
	first := r.first + uint64(n)
	r.old = r.live(slices.DeleteFunc(waiting, func(a uint64) bool { return a >= first }))
	r.first = first
	r.young = append(r.young[:0], r.young[n:]...)
	r.limit = len(r.young) + max(minYoung, len(r.old))
}

// live returns the buffered arrivals, without duplicates.
func (r *refs) live(waiting []uint64) []arrived {
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	out := make([]arrived, len(waiting))
	for i, a := range waiting {
		out[i] = arrived{a, r.of(a)}
	}
	return out
}

// appendState writes the number of buffered arrivals and, of each, the distance from the one before, its source and
// its sequence. It omits the time of the next sweep, which has no effect on the plan.
func (r *refs) appendState(b []byte, waiting []uint64) []byte {
	live := r.live(waiting)
	b = binary.AppendUvarint(b, uint64(len(live)))
	before := uint64(0)
	for _, a := range live {
		b = binary.AppendUvarint(b, a.arrival-before)
		b = binary.AppendUvarint(b, uint64(plan.RefSource(a.ref)))
		b = binary.AppendUvarint(b, plan.RefSequence(a.ref))
		before = a.arrival
	}
	return b
}

// readRefs reads what appendState wrote. next is the next arrival, sources the run's number of sources.
func readRefs(r *codec.Cursor, next uint64, sources int) *refs {
	out := newRefs(next)
	before := uint64(0)
	for range r.Bounded(uint64(len(r.Rest)) / 3) {
		d := r.Uvarint()
		a := arrived{before + d, plan.Ref(int(r.Bounded(uint64(sources)-1)), r.Bounded(plan.MaxSequence))}
		if r.Err == nil && (d == 0 || d >= next-before || plan.RefSequence(a.ref) == 0) {
			r.Fail(fmt.Errorf("arrival %d+%d is document %d of source %d, and the next one is arrival %d", before, d,
				plan.RefSequence(a.ref), plan.RefSource(a.ref), next))
		}
		if r.Err != nil {
			return out
		}
		out.old = append(out.old, a)
		before = a.arrival
	}
	return out
}

// holds checks that the arrivals in old are exactly the buffered ones. waiting may be unsorted and may contain
// duplicates.
func (r *refs) holds(waiting []uint64) error {
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	if !slices.EqualFunc(r.old, waiting, func(a arrived, b uint64) bool { return a.arrival == b }) {
		return errors.New("it does not name the documents that wait")
	}
	return nil
}
