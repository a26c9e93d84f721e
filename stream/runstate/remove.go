package runstate

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/checkpoints"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
)

// Removed lists which parts of a run existed and are removed.
type Removed struct {
	Plan         bool
	LowWatermark bool // over any document stream
	Checkpoints  bool // the object store and the manifest
}

// Remove removes all state of a run on the servers except its lease, which the caller holds, so that no daemon leads
// the run meanwhile. If no state of the run exists, it returns planlog.ErrNoPlan.
//
// The plan is removed first. State that a crash leaves after that belongs to no run, and a daemon that starts under
// the name begins a new run. If the checkpoints or the low watermark were removed first, the run would still exist,
// and a start would have to replay it from documents that may be purged.
//
//	crash after             left over                     and then
//	the plan                a watermark, checkpoints      the watermark times out; a new run of the name drops the checkpoints;
//	                                                      List shows them, Remove removes them
//	the watermark           checkpoints                   the same
//	the checkpoints         the lease                     it times out
func Remove(ctx context.Context, s *stream.Store, run string) (r Removed, err error) {
	if err := stream.ValidRun(run); err != nil {
		return r, err
	}
	if r.Plan, err = removeStream(ctx, s, s.Config().PlanStream(run).Name); err != nil {
		return r, err
	}
	if r.LowWatermark, err = retention.Remove(ctx, s, run); err != nil {
		return r, err
	}
	objects, err := removeStream(ctx, s, checkpoints.StreamName(run))
	if err != nil {
		return r, err
	}
	manifest, err := casvalue.DeleteKey(ctx, s, checkpoints.Bucket, run)
	r.Checkpoints = objects || manifest
	if r.LowWatermark {
		if err := retention.ReportReaders(ctx, s); err != nil {
			s.Log().Warn("cannot report to producers yet that the run no longer reads the stream", "run", run, "error", err)
		}
	}
	if err == nil && r == (Removed{}) {
		err = planlog.ErrNoPlan
	}
	return r, err
}

// removeStream removes a stream. existed is false if the stream does not exist.
func removeStream(ctx context.Context, s *stream.Store, name string) (existed bool, err error) {
	s = s.Own()
	err = s.Retry(ctx, "remove stream "+name, func(ctx context.Context) error {
		err := s.JetStream().DeleteStream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) { // or an earlier attempt, whose response was lost, removed it
			return nil
		}
		existed = existed || err == nil
		return err
	})
	if err != nil {
		return existed, fmt.Errorf("remove stream %s: %w", name, err)
	}
	return existed, nil
}
