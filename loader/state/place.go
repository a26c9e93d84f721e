package state

import (
	"loaderd/loader/planrecord"
)

// Place is a reader's place among the data-parallel ranks of a job.
type Place struct {
	// of one job the slowest rank counts, and jobs do not wait for each other; empty stands for planrecord.DefaultKeeper
	Job   string
	Rank  int
	World int
	Peer  int // of several processes that read as one rank, such as those of tensor parallelism
}

// Slice returns the rows [first, first+n) of a step of the given number of rows that the rank takes (invariant:
// world-size freedom).
func (p Place) Slice(rows int) (first, n int) {
	n = rows / p.World
	return p.Rank * n, n
}

// JobName returns the name of a reader's job.
func (p Place) JobName() string {
	if p.Job == "" {
		return planrecord.DefaultKeeper
	}
	return p.Job
}
