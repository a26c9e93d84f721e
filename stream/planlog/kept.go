package planlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// checkpointsPrefix is what the name of a run's object store has before the run's.
const checkpointsPrefix = "CHECKPOINTS_"

// Kept is what the server keeps of a run.
type Kept struct {
	Run string
	// Begun is when the plan's stream was made; the zero time says that there is no plan, as when a removal was broken off.
	Begun time.Time
	// PlanBytes and CheckpointBytes are what plan and checkpoints take.
	PlanBytes, CheckpointBytes uint64
}

// ListKept returns all runs of which the server keeps something, in the order of their names. It changes nothing.
func ListKept(ctx context.Context, s *stream.Store) ([]Kept, error) {
	var all []Kept
	s = s.Own()
	err := s.Retry(ctx, "list runs", func(ctx context.Context) error {
		found := map[string]Kept{}
		plans, checkpoints := s.Config().PlanStream("").Name, "OBJ_"+checkpointsPrefix
		streams := s.JetStream().ListStreams(ctx)
		for info := range streams.Info() {
			name := info.Config.Name
			if run, ok := strings.CutPrefix(name, plans); ok && stream.ValidRun(run) == nil {
				k := found[run]
				k.Run, k.Begun, k.PlanBytes = run, stream.Created(info), info.State.Bytes
				found[run] = k
			}
			if run, ok := strings.CutPrefix(name, checkpoints); ok && stream.ValidRun(run) == nil {
				k := found[run]
				k.Run, k.CheckpointBytes = run, info.State.Bytes
				found[run] = k
			}
		}
		all = slices.SortedFunc(maps.Values(found), func(a, b Kept) int { return cmp.Compare(a.Run, b.Run) })
		return streams.Err()
	})
	return all, err
}

// Leader returns who holds the lead of a run by its record, and whether that process answers; found is false where nobody does.
func Leader(ctx context.Context, s *stream.Store, run string) (h Holder, answers, found bool, err error) {
	record, err := lastValue(ctx, s, leadsBucket, run)
	if err != nil || len(record) == 0 {
		return h, false, false, err
	}
	if h, err = decodeHolder(record); err != nil { // of no daemon
		s.Log().Warn("the record of who leads a run cannot be read", "run", run, "bucket", leadsBucket, "error", err)
		return Holder{Host: "unknown"}, false, true, nil
	}
	return h, askAlive(ctx, s, h) == nil, true, ctx.Err() // whatever the cause, it does not answer
}

// NewestCheckpoint returns the newest checkpoint that counts of a plan's run, nil without one. It changes nothing.
func NewestCheckpoint(ctx context.Context, plan *Log) (checkpoint []byte, err error) {
	value, err := lastValue(ctx, plan.store, manifestsBucket, plan.run)
	if err != nil || len(value) == 0 {
		return nil, err
	}
	m, err := decodeCell[manifest](value)
	if err != nil {
		return nil, fmt.Errorf("read which checkpoints of run %s count (bucket %s): %w", plan.run, manifestsBucket, err)
	}
	if len(m.Value.Checkpoints) == 0 {
		return nil, nil
	}
	newest := m.Value.Checkpoints[len(m.Value.Checkpoints)-1]
	err = plan.store.RetryWithin(ctx, transferLimit, "read checkpoint "+newest.Name, func(ctx context.Context) error {
		objects, err := plan.store.JetStream().ObjectStore(ctx, checkpointsPrefix+plan.run)
		if err == nil {
			checkpoint, err = objects.GetBytes(ctx, newest.Name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return plan.unseal(ctx, newest.Name, checkpoint)
}

// lastValue returns what stands under a key of a bucket, nothing where the key was never written or is deleted, or there is no such bucket.
func lastValue(ctx context.Context, s *stream.Store, bucket, key string) (value []byte, err error) {
	s = s.Own()
	err = s.Retry(ctx, fmt.Sprintf("read key %s of bucket %s", key, bucket), func(ctx context.Context) error {
		stream, subject := keyAt(bucket, key)
		m, err := s.GetLast(ctx, stream, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err == nil {
			value = m.Data
		}
		return err
	})
	return value, err
}
