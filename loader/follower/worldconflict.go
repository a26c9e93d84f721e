package follower

import (
	"fmt"
	"strconv"

	"loaderd/loader/census"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// WorldConflictError returns the error for a reader whose job has another world size, and readers with it.
func WorldConflictError(place state.RankID, step uint64, agreed planrecord.WorldSize) *fault.Error {
	return &fault.Error{Reason: fault.WorldConflict,
		Message: fmt.Sprintf("rank %d of %d of job %q cannot read step %d: the job has %d ranks from step %d",
			place.Rank, place.World, place.JobName(), step, agreed.Ranks, agreed.Step),
		Advice: "stop this process, change the world size of all ranks at one step (StepLoader.resize), or give an " +
			"unrelated reader another job",
		Facts: map[string]string{"job": place.JobName(), "rank": strconv.Itoa(place.Rank),
			"world": strconv.Itoa(place.World), "step": strconv.FormatUint(step, 10),
			"agreed": strconv.Itoa(agreed.Ranks), "from_step": strconv.FormatUint(agreed.Step, 10)}}
}

// findConflict returns the error of a reader whose job has another world size and readers with it; nil for others.
func (r *Reader) findConflict(step uint64, sizes planrecord.WorldSizes) *fault.Error {
	job := r.place.JobName()
	agreed, known := sizes[job]
	if !known || agreed.Ranks == r.place.World ||
		!r.follower.Ranks.HasStreams(census.Key{Job: job, World: agreed.Ranks}) {
		return nil
	}
	return WorldConflictError(r.place, step, agreed)
}

// dropConflicting drops readers that take no part in a change of their job's world size.
func (f *Follower) dropConflicting() {
	sizes := f.plan.Snapshot().WorldSizes
	if len(sizes) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	conflicts := map[*Reader]*fault.Error{}
	for _, r := range f.readers.all() {
		if err := r.findConflict(r.next, sizes); err != nil {
			conflicts[r] = err
		}
	}
	for r, err := range conflicts {
		f.drop(r, err)
	}
}

// drop ends a reader with a cause. The caller holds mu.
func (f *Follower) drop(r *Reader, cause *fault.Error) {
	r.dropCause = cause
	f.removeReader(r)
	r.dropped <- cause
}
