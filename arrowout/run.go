package arrowout

import (
	"context"

	"loaderd/arrowout/internal/action"
	"loaderd/loader/assembly"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// Reader is one rank's place in a run.
type Reader interface {
	// Next waits for the next step: io.EOF behind the last one, a *fault.Error with the cause when it does not come in
	// time.
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

// Unjoined is a Run without its readers.
type Unjoined interface {
	action.Run
	// Assemble returns rows [first, first+n) of a step with their documents.
	Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error)
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
