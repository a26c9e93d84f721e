package backend

import (
	"context"
	"slices"
)

// Checkpoints stores planner states of a run. What a term is for, is refused with ErrLeadershipLost once a later one
// has claimed them.
type Checkpoints interface {
	// Claim makes a term the one that stores them, and returns those that count. Of a plan that has just begun, those of
	// an earlier plan of the run do not count any more.
	Claim(ctx context.Context, term uint64, begun bool) ([]Stored, error)
	// Put stores the state behind so many steps, and returns those that count then: see KeepCheckpoints.
	Put(ctx context.Context, term, step uint64, data []byte) ([]Stored, error)
	Get(ctx context.Context, name string) ([]byte, error)
	// List returns those that count, by ascending step.
	List(ctx context.Context) ([]Stored, error)
}

// Stored is a checkpoint that counts.
type Stored struct {
	Name  string `json:"name"`
	Step  uint64 `json:"step"` // that it goes on with
	Bytes int64  `json:"bytes"`
	// Earlier says that it was stored for an earlier plan of the run. This one is another, or what was restored of that
	// one.
	Earlier bool `json:"-"`
}

// checkpointsKept is how many count; an older one is used where the newest cannot be.
const checkpointsKept = 3

// KeepCheckpoints returns which checkpoints count once another one is stored, by ascending step, and which do not any
// more: all but the newest ones, and those of the same or later steps. These are not of this plan, for its planner has
// been to its end before it stores anything.
func KeepCheckpoints(count []Stored, put Stored) (kept, dropped []Stored) {
	behind := slices.IndexFunc(count, func(s Stored) bool { return s.Step >= put.Step })
	if behind < 0 {
		behind = len(count)
	}
	oldest := max(behind+1-checkpointsKept, 0)
	return append(slices.Clone(count[oldest:behind]), put), slices.Concat(count[:oldest], count[behind:])
}
