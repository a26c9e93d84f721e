package arrowout

import (
	"context"

	"loaderd/arrowout/internal/batch"
	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// Reader is one rank's place in a run.
type Reader interface {
	// Next waits for the next step: io.EOF behind the last one, a *fault.Error with the cause when it does not come in time.
	Next(ctx context.Context) (*plan.Step, error)
	// Room waits until a client that reports has taken enough of what it was sent.
	Room(ctx context.Context) error
	// Dropped gets the cause when the run gives the reader up by itself: it has not asked for its next step for long.
	Dropped() <-chan error
	// Close gives the place up, so that it no longer holds the plan back.
	Close()
}

// Run is what the server serves. Use Serving to make one of a *loader.Run.
type Run interface {
	Unjoined
	// JoinAs registers a reader that will ask for steps from step on.
	JoinAs(place state.Place, step uint64, client state.Client) (Reader, error)
}

// Unjoined is a Run but for its readers.
type Unjoined interface {
	// Info describes the run; its Run, Fingerprint and Config never change.
	Info() loader.Info
	// Assemble returns rows [first, first+n) of a step with their documents.
	Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error)
	// Step returns one step of the plan without waiting, io.EOF behind the end.
	Step(ctx context.Context, step uint64) (*plan.Step, error)
	// Cause says why a step is not there yet; nil when it is, or when the run has ended.
	Cause(step uint64) *fault.Error
	// Commit records that a keeper's own checkpoint covers all steps before step, Leave that it keeps none any more; both return the
	// step before which those of all keepers do.
	Commit(ctx context.Context, keeper string, step uint64) (committed uint64, err error)
	Leave(ctx context.Context, keeper string) (committed uint64, err error)
	// Sent returns how many steps readers of some jobs were handed; it waits for what other daemons report where that is less than step.
	Sent(ctx context.Context, step uint64, of func(job string) bool) uint64
	// Consumed records what the trainer of a rank has taken.
	Consumed(place state.Place, c state.Consumption) state.Receipt
	// Describe says where one document came from.
	Describe(ctx context.Context, sequence uint64) (document.Info, error)
	// Show returns one document for people, as the plan names it, used or not; Upcoming the next ones that the planner takes: n of a source, or
	// without a name those of the only source, or the next of each.
	Show(ctx context.Context, document uint64) (document.View, error)
	Upcoming(ctx context.Context, source string, n int) ([]uint64, error)
	// Lookup returns the sequences of the messages that have a producer's id, or hold a document that has it, Find calls f with every row that holds a part
	// of one.
	Lookup(ctx context.Context, id string) ([]uint64, error)
	Find(ctx context.Context, document uint64, f func(s *plan.Step, row int, pieces []packonline.Piece) error) error
	// SealBy ends the stream behind its last document, DrainBy empties the pool there and goes on; both return that document's sequence. The plan
	// records who asked for it, empty where callers have no names.
	SealBy(ctx context.Context, who string) (uint64, error)
	DrainBy(ctx context.Context, who string) (uint64, error)
	// SealSource ends one source behind its last document, whose sequence it returns.
	SealSource(ctx context.Context, name, who string) (uint64, error)
	// Mix changes the mixture of sources, or tries what a change would do.
	Mix(ctx context.Context, q state.MixRequest) (state.MixResult, error)
	// Stock says what the sources' streams hold now, by their numbers.
	Stock(ctx context.Context) ([]document.StreamState, error)
	// Checkpoint stores the planner's state and returns its step.
	Checkpoint(ctx context.Context) (uint64, error)
	// Measure has it counted how many steps the run will have; Info tells.
	Measure(ctx context.Context) error
	Stats() loader.Stats
}

// Serving makes a Run of a type whose JoinAs returns a reader type of its own, as that of *loader.Run does.
func Serving[R Reader](run interface {
	Unjoined
	JoinAs(place state.Place, step uint64, client state.Client) (R, error)
}) Run {
	return joined{run, func(place state.Place, step uint64, client state.Client) (Reader, error) {
		r, err := run.JoinAs(place, step, client)
		if err != nil {
			return nil, err // not a Reader that holds a nil R
		}
		return r, nil
	}}
}

type joined struct {
	Unjoined
	join func(state.Place, uint64, state.Client) (Reader, error)
}

func (j joined) JoinAs(place state.Place, step uint64, client state.Client) (Reader, error) {
	return j.join(place, step, client)
}

// sourcesOf returns the sources of a run.
func sourcesOf(run Unjoined, info loader.Info) *batch.Sources {
	return batch.NewSources(info.Config, info.Sources, func(ctx context.Context, document uint64) []plan.SourceInfo {
		known := run.Info().Sources
		if plan.RefSource(document) >= len(known) { // this daemon has not followed the plan as far: to describe a document it does
			_, _ = run.Describe(ctx, document)
			known = run.Info().Sources
		}
		return known
	})
}
