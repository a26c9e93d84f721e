package state

import (
	"loaderd/loader/planrecord"
)

// RankID is a reader's position among the data-parallel ranks of a job.
type RankID struct {
	// the slowest rank of a job counts, and jobs do not wait for each other; empty means planrecord.DefaultJob
	Job   string
	Rank  int
	World int
	Peer  int // index among processes that read as one rank, as in tensor parallelism
}

// RowRange returns the rows [first, first+n) of a step with that many rows that the rank reads (invariant: world-size
// freedom).
func (p RankID) RowRange(rows int) (first, n int) {
	n = rows / p.World
	return p.Rank * n, n
}

// JobName returns the name of a reader's job.
func (p RankID) JobName() string {
	if p.Job == "" {
		return planrecord.DefaultJob
	}
	return p.Job
}
