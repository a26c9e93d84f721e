package arrowout

import (
	"context"

	"loaderd/arrowout/internal/action"
	"loaderd/loader/assembly"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// Reader is the reader of one rank of a run.
type Reader interface {
	// Next waits for the next step. It returns io.EOF after the last one, and a *fault.Error with the cause if the step
	// is not available in time.
	Next(ctx context.Context) (*plan.Step, error)
	// AwaitRoom waits until a client that reports has taken enough of what it was sent.
	AwaitRoom(ctx context.Context) error
	// Dropped receives the cause when the run drops the reader because it has not requested its next step for too long.
	Dropped() <-chan error
	// Close releases the rank, so that it no longer holds the plan back.
	Close()
}

// Run is the run that the server serves. Use Serving to convert a *loader.Run.
type Run interface {
	RunQueries
	// JoinAs registers a reader that will request steps from step on. It may wait, until ctx is done.
	JoinAs(ctx context.Context, place state.RankID, step uint64, client state.Client) (Reader, error)
}

// RunQueries is a Run without JoinAs.
type RunQueries interface {
	action.Run
	// Assemble returns rows [first, first+n) of a step with their documents.
	Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error)
}

// AdaptRun converts a run whose JoinAs returns another reader type, such as *loader.Run, to a Run.
func AdaptRun[R Reader](run interface {
	RunQueries
	JoinAs(ctx context.Context, place state.RankID, step uint64, client state.Client) (R, error)
}) Run {
	join := func(ctx context.Context, place state.RankID, step uint64, client state.Client) (Reader, error) {
		r, err := run.JoinAs(ctx, place, step, client)
		if err != nil {
			return nil, err // not a Reader that contains a nil R
		}
		return r, nil
	}
	return runAdapter{run, join}
}

type runAdapter struct {
	RunQueries
	join func(context.Context, state.RankID, uint64, state.Client) (Reader, error)
}

func (j runAdapter) JoinAs(ctx context.Context, place state.RankID, step uint64,
	client state.Client) (Reader, error) {
	return j.join(ctx, place, step, client)
}
