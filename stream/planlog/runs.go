package planlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// Reading is a run that reads the document stream.
type Reading struct {
	Run string
	// Sealed says that the run reads no document behind sequence End.
	Sealed bool
	End    uint64
}

// endKey is what the key of a run's end has behind that of its floor, as older binaries wrote them.
const endKey = ".end"

// runsWithin bounds how long Runs asks.
const runsWithin = 5 * time.Second

// Runs returns the runs that read the document stream, in the order of their names, for who operates them. Of a run that was
// sealed by a daemon that did not record it, it does not know the end. It changes nothing, and takes few requests however many runs there are.
func Runs(ctx context.Context, s *stream.Store) ([]Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, runsWithin)
	defer cancel()
	all, err := runs(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("ask which runs read stream %s: %w", s.Config().Name, err)
	}
	return all, nil
}

func runs(ctx context.Context, s *stream.Store) ([]Reading, error) {
	documents, err := s.JetStream().Stream(ctx, s.Config().Name)
	if err != nil {
		return nil, err
	}
	kv, err := s.Own().JetStream().KeyValue(ctx, floorsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	began := map[string]time.Time{} // when a run began; one whose plan is gone reads nothing
	plans := s.Own().JetStream().ListStreams(ctx, jetstream.WithStreamListSubject(s.Config().PlanStream("*").Subjects[0]))
	for plan := range plans.Info() {
		began[strings.TrimPrefix(plan.Config.Name, s.Config().PlanStream("").Name)] = stream.Created(plan)
	}
	if err := plans.Err(); err != nil {
		return nil, err
	}
	found := map[string]Reading{}
	older := olderFloors{prefix: s.Config().Name + ".", documents: stream.Created(documents.CachedInfo()), began: began, found: found}
	if err := older.read(ctx, kv); err != nil {
		return nil, err
	}
	if err := inCell(ctx, kv, floorsKey(documents.CachedInfo()), began, found); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Reading) int { return strings.Compare(a.Run, b.Run) }), nil
}

// olderFloors are what older binaries recorded, a key for each run of a document stream and one for where it ends.
type olderFloors struct {
	prefix    string               // of the keys
	documents time.Time            // when the document stream was made
	began     map[string]time.Time // when a run began; one whose plan is gone reads nothing
	found     map[string]Reading
}

func (o *olderFloors) read(ctx context.Context, kv jetstream.KeyValue) error {
	watch, err := kv.WatchFiltered(ctx, []string{o.prefix + "*", o.prefix + "*" + endKey}, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }()
	for {
		select {
		case e := <-watch.Updates():
			if e == nil { // all that is there has come
				return nil
			}
			if err := o.take(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *olderFloors) take(e jetstream.KeyValueEntry) (err error) {
	run, end := strings.CutSuffix(strings.TrimPrefix(e.Key(), o.prefix), endKey)
	since, there := o.began[run]
	if !there {
		return nil
	}
	r := o.found[run]
	r.Run = run
	// What was written before the stream or the plan was made is of an earlier one of that name.
	if end && !e.Created().Before(o.documents) && !e.Created().Before(since) {
		r.Sealed = true
		if r.End, err = strconv.ParseUint(string(e.Value()), 10, 64); err != nil {
			return fmt.Errorf("key %s of bucket %s: %q is no sequence", e.Key(), floorsBucket, e.Value())
		}
	}
	o.found[run] = r
	return nil
}

// inCell adds the runs that have a floor in the cell of a document stream.
func inCell(ctx context.Context, kv jetstream.KeyValue, key string, began map[string]time.Time, found map[string]Reading) error {
	e, err := kv.Get(ctx, key) // of any replica: nothing depends on it
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	all, err := decodeCell[floors](e.Value())
	if err != nil {
		return fmt.Errorf("key %s of bucket %s: %w", key, floorsBucket, err)
	}
	for run, floor := range all.Value.Runs {
		if since, there := began[run]; there && since.UnixNano() == floor.Plan {
			found[run] = Reading{Run: run, Sealed: floor.Sealed, End: floor.End}
		}
	}
	return nil
}
