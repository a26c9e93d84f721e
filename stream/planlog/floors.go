package planlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/conn"
)

// floorsBucket is the key-value bucket in which runs say what they need. Keys are STREAM.RUN, and STREAM.RUN.end for the last document
// that a sealed run reads; values are sequences in decimal.
const floorsBucket = "loaderd_floors"

// Floors is one run's entry among those of all runs that read the document stream. It implements loader.Floors.
//
// A run begins with Need and then the first record of its plan; later it raises its floor with Need and then calls Purge. What a crash
// leaves, and what follows:
//
//	behind the first Need      a floor of a run that has not begun    it counts for beginPatience; a start of the run goes on from there
//	behind the first record    a run that needs its documents         its floor counts until its plan is deleted
//	behind a later Need        documents that no run needs            the next Purge, of any run, removes them
//	amid or behind a Purge     the documents of a beginning removed   the next Purge asks the stream where it begins, and goes on there
//	before Ends                a sealed run without an end            only Runs does not know where it ends; the next start records it
type Floors struct {
	store  *stream.Store
	stream jetstream.Stream
	kv     jetstream.KeyValue
	run    string
}

var _ loader.Floors = (*Floors)(nil)

// OpenFloors opens the entry of a run. It creates the bucket when it is absent.
func OpenFloors(ctx context.Context, s *stream.Store, run string) (*Floors, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	f := &Floors{store: s, run: run}
	var err error
	if f.stream, err = s.EnsureDocuments(ctx); err != nil {
		return nil, err
	}
	f.kv, err = s.EnsureKeyValue(ctx, floorsBucket, "first document that each run still needs, and the last that it reads")
	return f, err
}

// endKey is what the key of a run's end has behind that of its floor.
const endKey = ".end"

func (f *Floors) key(run string) string { return f.store.Config().Name + "." + run }

// Need records that the run needs the documents from sequence from on.
func (f *Floors) Need(ctx context.Context, from uint64) error {
	return f.store.Retry(ctx, "record the floor of run "+f.run, func(ctx context.Context) error {
		_, err := f.kv.PutString(ctx, f.key(f.run), strconv.FormatUint(from, 10))
		return conn.AsFull(err)
	})
}

// Ends records that the run reads no document behind sequence at.
func (f *Floors) Ends(ctx context.Context, at uint64) error {
	return f.store.Retry(ctx, "record the end of run "+f.run, func(ctx context.Context) error {
		_, err := f.kv.PutString(ctx, f.key(f.run)+endKey, strconv.FormatUint(at, 10))
		return conn.AsFull(err)
	})
}

// Purge removes the documents below the least floor of all runs whose plan exists, and returns the first sequence left.
func (f *Floors) Purge(ctx context.Context) (first uint64, err error) {
	err = f.store.Retry(ctx, "purge documents", func(ctx context.Context) error {
		floor, err := f.least(ctx)
		if err != nil {
			return err
		}
		info, err := f.stream.Info(ctx)
		if err != nil {
			return err
		}
		first = info.State.FirstSeq
		if floor <= first {
			return nil
		}
		if err := f.stream.Purge(ctx, jetstream.WithPurgeSequence(floor)); err != nil {
			return err
		}
		first = min(floor, info.State.LastSeq+1)
		return nil
	})
	return first, err
}

// beginPatience is how long a run may take from its floor to the first record of its plan. Who began it and was killed in between leaves
// a floor that would hold the documents for ever.
var beginPatience = 10 * time.Minute

// abandoned reports whether a run recorded its floor and did not begin. Both times are the server's.
func abandoned(plan *jetstream.StreamInfo, floor jetstream.KeyValueEntry) bool {
	return plan.State.LastSeq == 0 && plan.TimeStamp.Sub(floor.Created()) > beginPatience
}

// least returns the least floor of all runs over this document stream, 0 without any. Every run records its floor before the first
// record of its plan, so a run without an entry reads another stream or has not begun. One that begins while another purges looks, after it has
// recorded its floor, whether its documents are still there, and is refused when they are not.
func (f *Floors) least(ctx context.Context) (uint64, error) {
	keys, err := f.kv.ListKeysFiltered(ctx, f.key("*"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = keys.Stop() }()
	var floors []uint64
	for key := range keys.Keys() {
		run := strings.TrimPrefix(key, f.key(""))
		plan, err := f.store.JetStream().Stream(ctx, f.store.Config().PlanStream(run).Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // its plan is gone: it will not ask again
		}
		if err != nil {
			return 0, err
		}
		e, err := f.kv.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		if abandoned(plan.CachedInfo(), e) {
			continue
		}
		floor, err := strconv.ParseUint(string(e.Value()), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("key %s of bucket %s: %q is no sequence", key, floorsBucket, e.Value())
		}
		floors = append(floors, floor)
	}
	if len(floors) == 0 {
		return 0, nil
	}
	return slices.Min(floors), nil
}
