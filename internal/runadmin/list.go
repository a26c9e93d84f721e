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

// Listed describes a run.
type Listed struct {
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
	Sources []ListedSource `json:"sources"`
	// SealedBy is the identity that requested the seal, if the plan names it after the newest checkpoint; loaderd audit
	// lists all controls.
	SealedBy string `json:"sealed_by,omitempty"`
	// Committed is the step before which every keeper's checkpoint covers all steps; nil without keepers.
	Committed *uint64 `json:"committed"`
	// Leader is the leader of the run according to its record; nil without one.
	Leader          *Leader `json:"leader"`
	PlanBytes       uint64  `json:"plan_bytes"`
	CheckpointBytes uint64  `json:"checkpoint_bytes"`
}

// ListedSource is a source of a run.
type ListedSource struct {
	Name     string  `json:"name"`
	Stream   string  `json:"stream"`
	Sealed   bool    `json:"sealed,omitempty"`
	SealedAt uint64  `json:"sealed_at,omitempty"` // last document of a sealed source
	Removed  bool    `json:"removed,omitempty"`
	Floor    *uint64 `json:"floor"` // first document of the source that the run still needs; nil if not reported
}

// Leader is the leader of a run according to its record.
type Leader struct {
	lease.LeaderInfo
	// Answers reports whether it has just responded. A leader that was killed or is cut off does not respond.
	Answers bool `json:"answers"`
}

// List returns all runs that have state on the server, over any document stream, ordered by name. It changes nothing.
func List(ctx context.Context, store *stream.Store) ([]Listed, error) {
	kept, err := runstate.List(ctx, store)
	if err != nil {
		return nil, err
	}
	needs, err := retention.Needs(ctx, store)
	if err != nil {
		return nil, err
	}
	out := make([]Listed, len(kept))
	for i, k := range kept {
		if out[i], err = look(ctx, store, k, needs); err != nil {
			return nil, fmt.Errorf("look at run %s: %w", k.Name, err)
		}
	}
	return out, nil
}

// Look returns a run as List does. It returns planlog.ErrNoPlan if the run has no state.
func Look(ctx context.Context, store *stream.Store, run string) (Listed, error) {
	kept, err := runstate.List(ctx, store)
	if err != nil {
		return Listed{}, err
	}
	i := slices.IndexFunc(kept, func(k runstate.Run) bool { return k.Name == run })
	if i < 0 {
		return Listed{}, fmt.Errorf("run %s: %w", run, planlog.ErrNoPlan)
	}
	needs, err := retention.Needs(ctx, store)
	if err != nil {
		return Listed{}, err
	}
	return look(ctx, store, kept[i], needs)
}

// look describes one run. A plan that cannot be read is reported in the result and is not an error.
func look(ctx context.Context, store *stream.Store, k runstate.Run, needs []retention.Need) (Listed, error) {
	l := Listed{Run: k.Name, State: Remainder, Begun: k.Begun, PlanBytes: k.PlanBytes, CheckpointBytes: k.CheckpointBytes}
	h, answers, found, err := lease.Leader(ctx, store, k.Name)
	if err != nil {
		return l, err
	}
	if found {
		l.Leader = &Leader{h, answers}
	}
	if k.Begun.IsZero() {
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
	if len(s.Keepers) > 0 {
		committed := s.Keepers.Committed()
		l.Committed = &committed
	}
	for _, x := range s.Sources {
		l.Sources = append(l.Sources, ListedSource{Name: x.Name, Stream: x.Stream.Name, Sealed: x.Sealed, SealedAt: x.Last,
			Removed: x.Removed})
	}
	l.floors(needs)
	l.Length = howLong(ctx, store, l)
	return l, nil
}

// floors sets the low watermarks that the run has reported.
func (l *Listed) floors(needs []retention.Need) {
	for _, n := range needs {
		if n.Run != l.Run {
			continue
		}
		for i := range l.Sources {
			if l.Sources[i].Stream == n.Stream {
				l.Sources[i].Floor = &n.From
			}
		}
	}
}

// askLimit bounds the wait for a leader's response about the length of its run.
const askLimit = 2 * time.Second

// howLong requests the total number of steps from the leader of a run; nil if the leader does not respond.
func howLong(ctx context.Context, store *stream.Store, l Listed) *state.Length {
	if l.State == Ended {
		return &state.Length{Steps: l.Steps, Exact: true}
	}
	if l.Leader == nil || !l.Leader.Answers {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	length, err := loader.AskLength(ctx, daemonbus.New(store, l.Run))
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
