package planlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// Removed says what of a run was there and is removed.
type Removed struct {
	Plan        bool
	Floor       bool // its floors and ends
	Checkpoints bool // their store, and what says which of them count
}

// Remove removes all that the server keeps of a run but the record of who leads it, which the caller holds: so no daemon leads the run
// meanwhile. Where there is nothing the error is ErrNoPlan.
//
// The plan goes first. Whatever a crash leaves behind it belongs to no run: a daemon that is started under the name begins anew.
// With the checkpoints or the floor gone first, the run would still be there, and a start would have to plan it again from documents
// that may be purged.
//
//	behind the plan          a floor, checkpoints          the floor counts no more after gonePatience; a run that begins under the
//	                                                       name forgets the checkpoints; ListKept shows them, Remove removes them
//	behind the floor         checkpoints                   the same
//	behind the checkpoints   the record of the lead        its holder is gone: it counts no more after leadSilence
func Remove(ctx context.Context, s *stream.Store, run string) (r Removed, err error) {
	if err := stream.ValidRun(run); err != nil {
		return r, err
	}
	if r.Plan, err = dropStream(ctx, s, s.Config().PlanStream(run).Name); err != nil {
		return r, err
	}
	if r.Floor, err = dropFloors(ctx, s, run); err != nil {
		return r, err
	}
	objects, err := dropStream(ctx, s, "OBJ_"+checkpointsPrefix+run)
	if err != nil {
		return r, err
	}
	manifest, err := dropKey(ctx, s, manifestsBucket, run)
	r.Checkpoints = objects || manifest
	if r.Floor {
		if err := tellAll(ctx, s); err != nil {
			s.Log().Warn("producers are not told yet that the run does not read the stream any more", "run", run, "error", err)
		}
	}
	if err == nil && r == (Removed{}) {
		err = ErrNoPlan
	}
	return r, err
}

// dropStream removes a stream; there is false where it is not there.
func dropStream(ctx context.Context, s *stream.Store, name string) (there bool, err error) {
	s = s.Own()
	err = s.Retry(ctx, "remove stream "+name, func(ctx context.Context) error {
		err := s.JetStream().DeleteStream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) { // or an earlier attempt removed it, whose answer was lost
			return nil
		}
		there = there || err == nil
		return err
	})
	if err != nil {
		return there, fmt.Errorf("remove stream %s: %w", name, err)
	}
	return there, nil
}
