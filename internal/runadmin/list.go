package runadmin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"loaderd/loader"
	"loaderd/loader/maintenance"
	"loaderd/loader/state"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/daemonbus"
	"loaderd/stream/lease"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
	"loaderd/stream/runstate"
)

// State is the progress of a run.
type State string

// States of a run.
const (
	Live       State = "live"
	Sealed     State = "sealed"     // it reads no further documents, and has not planned all that it reads
	Ended      State = "ended"      // all its steps are planned
	NotBegun   State = "not begun"  // its plan is empty
	Remainder  State = "remainder"  // its plan is gone, because a removal was interrupted
	Unreadable State = "unreadable" // Problem contains the reason
)

// RunInfo describes a run.
type RunInfo struct {
	Run   string `json:"run"`
	ID    string `json:"run_id,omitempty"` // of the run; a run that is deleted and started again has another one
	State State  `json:"state"`
	// Problem is why its plan cannot be read.
	Problem string    `json:"problem,omitempty"`
	Begun   time.Time `json:"begun,omitzero"`
	Steps   uint64    `json:"steps"`
	// Length is its total number of steps, as reported by its leader; nil if the leader does not report it and the run
	// has not ended.
	Length *state.Length `json:"length,omitempty"`
	// Sources are in the order of their numbers.
	Sources []SourceInfo `json:"sources"`
	// SealedBy is the identity that requested the seal, if the plan names it after the newest checkpoint; loaderd run
	// audit lists all controls.
	SealedBy string `json:"sealed_by,omitempty"`
	// Committed is the step before which every job's checkpoint covers all steps; nil without committing jobs.
	Committed *uint64 `json:"committed"`
	// Leader is the leader of the run according to its record; nil without one.
	Leader          *Leader `json:"leader"`
	PlanBytes       uint64  `json:"plan_bytes"`
	CheckpointBytes uint64  `json:"checkpoint_bytes"`
}

// SourceInfo is a source of a run.
type SourceInfo struct {
	Name     string `json:"name"`
	Stream   string `json:"stream"`
	Sealed   bool   `json:"sealed,omitempty"`
	SealedAt uint64 `json:"sealed_at,omitempty"` // last document of a sealed source
	Removed  bool   `json:"removed,omitempty"`
	// first document of the source that the run still needs; nil if not reported
	LowWatermark *uint64 `json:"low_watermark"`
}

// Leader is the leader of a run according to its record.
type Leader struct {
	lease.LeaderInfo
	// Responds reports whether it has just responded. A leader that was killed or is cut off does not respond.
	Responds bool `json:"answers"`
}

// List returns all runs that have state on the server, over any document stream, ordered by name. It changes nothing.
func List(ctx context.Context, store *stream.Store) ([]RunInfo, error) {
	kept, err := runstate.List(ctx, store)
	if err != nil {
		return nil, err
	}
	needs, err := retention.ListWatermarks(ctx, store)
	if err != nil {
		return nil, err
	}
	out := make([]RunInfo, len(kept))
	for i, k := range kept {
		if out[i], err = describeRun(ctx, store, k, needs); err != nil {
			return nil, fmt.Errorf("look at run %s: %w", k.Name, err)
		}
	}
	return out, nil
}

// Describe returns a run as List does. It returns planlog.ErrNoPlan if the run has no state.
func Describe(ctx context.Context, store *stream.Store, run string) (RunInfo, error) {
	kept, err := runstate.List(ctx, store)
	if err != nil {
		return RunInfo{}, err
	}
	i := slices.IndexFunc(kept, func(k runstate.Run) bool { return k.Name == run })
	if i < 0 {
		return RunInfo{}, fmt.Errorf("run %s: %w", run, planlog.ErrNoPlan)
	}
	needs, err := retention.ListWatermarks(ctx, store)
	if err != nil {
		return RunInfo{}, err
	}
	return describeRun(ctx, store, kept[i], needs)
}

// describeRun describes one run. A plan that cannot be read is reported in the result and is not an error.
func describeRun(ctx context.Context, store *stream.Store, k runstate.Run,
	needs []retention.RunWatermark) (RunInfo, error) {
	l := RunInfo{Run: k.Name, State: Remainder, Begun: k.Created, PlanBytes: k.PlanBytes,
		CheckpointBytes: k.CheckpointBytes}
	h, answers, found, err := lease.ReadLeader(ctx, store, k.Name)
	if err != nil {
		return l, err
	}
	if found {
		l.Leader = &Leader{h, answers}
	}
	if k.Created.IsZero() {
		return l, nil
	}
	s, begun, err := summarize(ctx, store, k.Name)
	switch {
	case ctx.Err() != nil:
		return l, ctx.Err()
	case err != nil:
		l.State, l.Problem = Unreadable, err.Error()
		return l, nil
	case !begun:
		l.State = NotBegun
		return l, nil
	}
	l.ID, l.Steps, l.SealedBy = s.Header.ID, s.Steps, s.SealedBy
	switch {
	case s.Ended:
		l.State = Ended
	case s.Sealed:
		l.State = Sealed
	default:
		l.State = Live
	}
	if len(s.Commits) > 0 {
		committed := s.Commits.Committed()
		l.Committed = &committed
	}
	for _, x := range s.Sources {
		l.Sources = append(l.Sources, SourceInfo{Name: x.Name, Stream: x.Stream.Name, Sealed: x.Sealed, SealedAt: x.Last,
			Removed: x.Removed})
	}
	l.lowWatermarks(needs)
	l.Length = requestLength(ctx, store, l)
	return l, nil
}

// lowWatermarks sets the low watermarks that the run has reported.
func (l *RunInfo) lowWatermarks(needs []retention.RunWatermark) {
	for _, n := range needs {
		if n.Run != l.Run {
			continue
		}
		for i := range l.Sources {
			if l.Sources[i].Stream == n.Stream {
				l.Sources[i].LowWatermark = &n.From
			}
		}
	}
}

// requestTimeout bounds the wait for a leader's response about the length of its run.
const requestTimeout = 2 * time.Second

// requestLength requests the total number of steps from the leader of a run; nil if the leader does not respond.
func requestLength(ctx context.Context, store *stream.Store, l RunInfo) *state.Length {
	if l.State == Ended {
		return &state.Length{Steps: l.Steps, Exact: true}
	}
	if l.Leader == nil || !l.Leader.Responds {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	length, err := loader.RequestLength(ctx, daemonbus.New(store, l.Run))
	if err != nil {
		store.Log().Debug("no estimate of the length of a run from its leader", "run", l.Run, "error", err)
	}
	return length
}

// summarize reads a run's plan, starting from its newest checkpoint if one exists; begun is false for a plan without
// records.
func summarize(ctx context.Context, store *stream.Store, run string) (s maintenance.Summary, begun bool, err error) {
	log, err := planlog.OpenReadOnly(ctx, store, run)
	if err != nil {
		return s, false, err
	}
	last, err := log.Last(ctx)
	if err != nil || last == 0 {
		return s, false, err
	}
	checkpoint, err := checkpoints.Newest(ctx, log)
	if err != nil {
		store.Log().Warn("cannot read the newest checkpoint of a run; reading its whole plan", "run", run, "error", err)
	}
	s, err = maintenance.Summarize(ctx, log, checkpoint)
	return s, true, err
}
