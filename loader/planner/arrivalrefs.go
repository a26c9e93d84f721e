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

// arrivalRefs maps arrivals of buffered documents to the documents. The planner counts in arrivals, steps name
// documents.
//
// young holds all recent arrivals. Of earlier arrivals, old holds those that were buffered at the last sweep.
type arrivalRefs struct {
	old         []arrivalRef // ascending
	firstRecent uint64       // arrival of young[0]
	recent      []uint64
	limit       int // of young, at which a sweep is due
}

type arrivalRef struct{ arrival, ref uint64 }

// minRecent is the minimum number of arrivals between two sweeps.
const minRecent = 16384

func newRefs(first uint64) *arrivalRefs { return &arrivalRefs{firstRecent: first, limit: minRecent} }

// add notes the next arrival.
func (r *arrivalRefs) add(ref uint64) { r.recent = append(r.recent, ref) }

// refOf returns the document of an arrival that is still buffered.
func (r *arrivalRefs) refOf(arrival uint64) uint64 {
	if arrival >= r.firstRecent {
		return r.recent[arrival-r.firstRecent]
	}
	i, _ := slices.BinarySearchFunc(r.old, arrival, func(a arrivalRef, b uint64) int { return cmp.Compare(a.arrival, b) })
	return r.old[i].ref
}

// hasArrival reports whether the document of an arrival is known.
func (r *arrivalRefs) hasArrival(arrival uint64) bool {
	if arrival >= r.firstRecent {
		return arrival-r.firstRecent < uint64(len(r.recent))
	}
	_, ok := slices.BinarySearchFunc(r.old, arrival, func(a arrivalRef, b uint64) int { return cmp.Compare(a.arrival, b) })
	return ok
}

// isSweepDue reports whether a sweep is due.
func (r *arrivalRefs) isSweepDue() bool { return len(r.recent) >= r.limit }

// sweep removes the arrivals in the older half of young that are no longer buffered. Most buffered documents arrived
// recently, and stay in the other half, where lookup takes constant time. A sweep is due when as many documents have
// arrived as were buffered at the last one, so its amortized cost per arrival is constant.
func (r *arrivalRefs) sweep(waiting []uint64) {
	n := len(r.recent) / 2
	first := r.firstRecent + uint64(n)
	r.old = r.bufferedRefs(slices.DeleteFunc(waiting, func(a uint64) bool { return a >= first }))
	r.firstRecent = first
	r.recent = append(r.recent[:0], r.recent[n:]...)
	r.limit = len(r.recent) + max(minRecent, len(r.old))
}

// bufferedRefs returns the buffered arrivals, without duplicates.
func (r *arrivalRefs) bufferedRefs(waiting []uint64) []arrivalRef {
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	out := make([]arrivalRef, len(waiting))
	for i, a := range waiting {
		out[i] = arrivalRef{a, r.refOf(a)}
	}
	return out
}

// appendState writes the number of buffered arrivals and, of each, the distance from the one before, its source and
// its sequence. It omits the time of the next sweep, which has no effect on the plan.
func (r *arrivalRefs) appendState(b []byte, waiting []uint64) []byte {
	live := r.bufferedRefs(waiting)
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
func readRefs(r *codec.Cursor, next uint64, sources int) *arrivalRefs {
	out := newRefs(next)
	before := uint64(0)
	for range r.BoundedUvarint(uint64(len(r.Buf)) / 3) {
		d := r.Uvarint()
		a := arrivalRef{before + d, plan.Ref(int(r.BoundedUvarint(uint64(sources)-1)), r.BoundedUvarint(plan.MaxSequence))}
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

// checkBuffered checks that the arrivals in old are exactly the buffered ones. waiting may be unsorted and may contain
// duplicates.
func (r *arrivalRefs) checkBuffered(waiting []uint64) error {
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	if !slices.EqualFunc(r.old, waiting, func(a arrivalRef, b uint64) bool { return a.arrival == b }) {
		return errors.New("it does not name the documents that wait")
	}
	return nil
}
