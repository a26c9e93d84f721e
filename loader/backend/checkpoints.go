package backend

import (
	"context"
	"slices"
)

// Checkpoints stores planner states of a run. Operations of a term return ErrLeadershipLost once a later term has
// claimed them.
type Checkpoints interface {
	// Claim gives a term the exclusive right to store checkpoints, and returns the valid ones. For a plan that has just
	// begun, checkpoints of an earlier plan of the run are no longer valid.
	Claim(ctx context.Context, term uint64, begun bool) ([]CheckpointInfo, error)
	// Put stores the state after that many steps, and returns the checkpoints that are valid then: see KeepCheckpoints.
	Put(ctx context.Context, term, step uint64, data []byte) ([]CheckpointInfo, error)
	Get(ctx context.Context, name string) ([]byte, error)
	// List returns the valid checkpoints, by ascending step.
	List(ctx context.Context) ([]CheckpointInfo, error)
}

// CheckpointInfo is a valid checkpoint.
type CheckpointInfo struct {
	Name  string `json:"name"`
	Step  uint64 `json:"step"` // step with which planning continues
	Bytes int64  `json:"bytes"`
	// FromEarlierPlan reports that it was stored for an earlier plan of the run. The current plan is another one, or was
	// restored from that one.
	FromEarlierPlan bool `json:"-"`
}

// maxCheckpoints is the number of valid checkpoints. An older one is used if the newest is unusable.
const maxCheckpoints = 3

// KeepCheckpoints returns which checkpoints are valid once put is stored, by ascending step, and which no longer are.
// It drops all but the newest ones, and those of the same or later steps. The latter belong to another plan, because
// a planner has replayed its plan to the end before it stores anything.
func KeepCheckpoints(count []CheckpointInfo, put CheckpointInfo) (kept, dropped []CheckpointInfo) {
	behind := slices.IndexFunc(count, func(s CheckpointInfo) bool { return s.Step >= put.Step })
	if behind < 0 {
		behind = len(count)
	}
	oldest := max(behind+1-maxCheckpoints, 0)
	return append(slices.Clone(count[oldest:behind]), put), slices.Concat(count[:oldest], count[behind:])
}
