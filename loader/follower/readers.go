package follower

import (
	"cmp"
	"container/heap"
	"slices"

	"loaderd/loader/state"
)

// readers orders a follower's readers as a demand needs them, so that the cost of a rank's step does not grow with
// the number of ranks.
type readers struct {
	byJob      map[string]*queue // per job, the slowest reader first
	byPlace    map[state.RankID][]*Reader
	byNeeded   *queue // the reader first that may request rows of the earliest step
	byFurthest *queue // the furthest reader first
}

// The queues of a reader.
const (
	jobQueue = iota
	neededQueue
	furthestQueue
	queueCount
)

func newReaders() readers {
	return readers{map[string]*queue{}, map[state.RankID][]*Reader{},
		&queue{order: neededQueue, compare: func(a, b *Reader) int { return cmp.Compare(a.neededStep, b.neededStep) }},
		&queue{order: furthestQueue, compare: func(a, b *Reader) int { return cmp.Compare(b.next, a.next) }}}
}

// compareProgress orders readers by next step, then by rank.
func compareProgress(a, b *Reader) int {
	return cmp.Or(cmp.Compare(a.next, b.next), cmp.Compare(a.place.Rank, b.place.Rank))
}

func (s readers) add(r *Reader) {
	job := r.place.JobName()
	if s.byJob[job] == nil {
		s.byJob[job] = &queue{order: jobQueue, compare: compareProgress}
	}
	for _, q := range []*queue{s.byJob[job], s.byNeeded, s.byFurthest} {
		heap.Push(q, r)
	}
	s.byPlace[r.place] = append(s.byPlace[r.place], r)
}

// remove removes a reader; no effect if it has left before.
func (s readers) remove(r *Reader) {
	if r.closed {
		return
	}
	r.closed = true
	job := r.place.JobName()
	for _, q := range []*queue{s.byJob[job], s.byNeeded, s.byFurthest} {
		heap.Remove(q, r.heapIndex[q.order])
	}
	if s.byJob[job].Len() == 0 {
		delete(s.byJob, job)
	}
	if s.byPlace[r.place] = slices.DeleteFunc(s.byPlace[r.place], func(x *Reader) bool {
		return x == r
	}); len(s.byPlace[r.place]) == 0 {
		delete(s.byPlace, r.place)
	}
}

// move updates a reader's position: its next step, and the first step whose rows it may request.
func (s readers) move(r *Reader, next, reads uint64) {
	r.next, r.neededStep = next, reads
	if r.closed {
		return
	}
	heap.Fix(s.byJob[r.place.JobName()], r.heapIndex[jobQueue])
	heap.Fix(s.byNeeded, r.heapIndex[neededQueue])
	heap.Fix(s.byFurthest, r.heapIndex[furthestQueue])
}

// all returns the readers in any order. The slice is valid until a reader moves.
func (s readers) all() []*Reader { return s.byNeeded.readers }

// matchesDemand reports whether a demand is still correct after a reader of a job has moved, so that it need not be
// sent again.
func (s readers) matchesDemand(d state.Demand, job string) bool {
	slowest, told := s.byJob[job].readers[0], d.Jobs[job]
	return told.Rank == slowest.place.Rank && told.World == slowest.place.World && told.Step == slowest.next &&
		d.Needed == s.byNeeded.readers[0].neededStep && d.Furthest == s.byFurthest.readers[0].next
}

// firstNeeded returns the first step whose rows a reader may request; state.NoStep without readers.
func (s readers) firstNeeded() uint64 {
	if s.byNeeded.Len() == 0 {
		return state.NoStep
	}
	return s.byNeeded.readers[0].neededStep
}

// demand returns the demand of the readers.
func (s readers) demand() state.Demand {
	d := state.NewDemand()
	for job, q := range s.byJob {
		slowest := q.readers[0]
		d.Jobs[job] = state.JobDemand{Rank: slowest.place.Rank, World: slowest.place.World, Step: slowest.next}
	}
	if s.byNeeded.Len() > 0 {
		d.Needed, d.Furthest = s.firstNeeded(), s.byFurthest.readers[0].next
	}
	return d
}

// queue is a heap of readers. Each reader stores its index in it.
type queue struct {
	order   int // index into Reader.at
	compare func(a, b *Reader) int
	readers []*Reader
}

var _ heap.Interface = (*queue)(nil)

func (q *queue) Len() int           { return len(q.readers) }
func (q *queue) Less(i, j int) bool { return q.compare(q.readers[i], q.readers[j]) < 0 }

func (q *queue) Swap(i, j int) {
	q.readers[i], q.readers[j] = q.readers[j], q.readers[i]
	q.readers[i].heapIndex[q.order], q.readers[j].heapIndex[q.order] = i, j
}

func (q *queue) Push(x any) {
	r := x.(*Reader)
	r.heapIndex[q.order] = len(q.readers)
	q.readers = append(q.readers, r)
}

func (q *queue) Pop() any {
	n := len(q.readers) - 1
	r := q.readers[n]
	q.readers[n], q.readers = nil, q.readers[:n]
	return r
}
