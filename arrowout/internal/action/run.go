package action

import (
	"context"

	"loaderd/arrowout/internal/batch"
	"loaderd/loader"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// Run is what actions need of a run.
type Run interface {
	Steps
	Documents
	Records
}

// Steps describe a run and its steps.
type Steps interface {
	// Info describes the run; its Run, Fingerprint and Config never change.
	Info() loader.Info
	// Step returns one step of the plan without waiting, io.EOF behind the end.
	Step(ctx context.Context, step uint64) (*plan.Step, error)
	// Cause returns why a step is not planned yet; nil when it is, or when the run has ended.
	Cause(step uint64) *fault.Error
	// Sent returns how many steps readers of some jobs were handed; it waits for what other daemons report where that is
	// less than step.
	Sent(ctx context.Context, step uint64, of func(job string) bool) uint64
	// Consumed records what the trainer of a rank has taken.
	Consumed(place state.Place, c state.Consumption) state.Receipt
	// Measure has the leader count how many steps the run will have; Info reports the progress.
	Measure(ctx context.Context) error
	Stats() loader.Stats
}

// Documents describe the documents of a run.
type Documents interface {
	// Describe returns the origin of one document.
	Describe(ctx context.Context, sequence uint64) (document.Info, error)
	// Show returns one document for people, as the plan names it, used or not; Upcoming the next ones that the planner
	// takes: n of a source, or without a name those of the only source, or the next of each.
	Show(ctx context.Context, document uint64) (document.View, error)
	Upcoming(ctx context.Context, source string, n int) ([]uint64, error)
	// Lookup returns the sequences of the messages that have a producer's id, or hold a document that has it, Find calls f
	// with every row that holds a part of one.
	Lookup(ctx context.Context, id string) ([]uint64, error)
	Find(ctx context.Context, document uint64, f func(s *plan.Step, row int, pieces []packonline.Piece) error) error
	// Stock returns what the streams of the sources hold now, by the numbers of the sources.
	Stock(ctx context.Context) ([]document.StreamState, error)
}

// Records append to the plan, or store the state of the planner.
type Records interface {
	// Commit records that a keeper's own checkpoint covers all steps before step, Leave that it keeps none any more; both
	// return the step before which those of all keepers do.
	Commit(ctx context.Context, keeper string, step uint64) (committed uint64, err error)
	Leave(ctx context.Context, keeper string) (committed uint64, err error)
	// SealBy ends the stream behind its last document, DrainBy empties the pool there and goes on; both return that
	// document's sequence. The plan records who asked for it, empty where callers have no names.
	SealBy(ctx context.Context, who string) (uint64, error)
	DrainBy(ctx context.Context, who string) (uint64, error)
	// SealSource ends one source behind its last document, whose sequence it returns.
	SealSource(ctx context.Context, name, who string) (uint64, error)
	// Mix changes the mixture of sources, or tries what a change would do.
	Mix(ctx context.Context, q state.MixRequest) (state.MixResult, error)
	// Checkpoint stores the planner's state and returns its step.
	Checkpoint(ctx context.Context) (uint64, error)
}

// SourcesOf returns the sources of a run.
func SourcesOf(run Run, info loader.Info) *batch.Sources {
	return batch.NewSources(info.Config, info.Sources, func(ctx context.Context, document uint64) []plan.SourceInfo {
		known := run.Info().Sources
		// this daemon has not followed the plan as far: to describe a document it does
		if plan.RefSource(document) >= len(known) {
			_, _ = run.Describe(ctx, document)
			known = run.Info().Sources
		}
		return known
	})
}
