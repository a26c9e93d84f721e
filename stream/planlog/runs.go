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

// runsWithin bounds how long Runs asks.
const runsWithin = 5 * time.Second

// Runs returns the runs that read the document stream, in the order of their names, for those who publish to it. Of a run that was
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
	kv, err := s.JetStream().KeyValue(ctx, floorsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	began := map[string]time.Time{} // when a run began; one whose plan is gone reads nothing
	plans := s.JetStream().ListStreams(ctx, jetstream.WithStreamListSubject(s.Config().PlanStream("*").Subjects[0]))
	for plan := range plans.Info() {
		began[strings.TrimPrefix(plan.Config.Name, s.Config().PlanStream("").Name)] = plan.Created
	}
	if err := plans.Err(); err != nil {
		return nil, err
	}
	prefix := s.Config().Name + "."
	watch, err := kv.WatchFiltered(ctx, []string{prefix + "*", prefix + "*" + endKey}, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Stop() }()
	found := map[string]Reading{}
	for {
		select {
		case e := <-watch.Updates():
			if e == nil { // all that is there has come
				return slices.SortedFunc(maps.Values(found), func(a, b Reading) int { return strings.Compare(a.Run, b.Run) }), nil
			}
			run, end := strings.CutSuffix(strings.TrimPrefix(e.Key(), prefix), endKey)
			since, there := began[run]
			if !there {
				continue
			}
			r := found[run]
			r.Run = run
			// What was written before the stream or the plan was made is of an earlier one of that name.
			if end && !e.Created().Before(documents.CachedInfo().Created) && !e.Created().Before(since) {
				r.Sealed = true
				if r.End, err = strconv.ParseUint(string(e.Value()), 10, 64); err != nil {
					return nil, fmt.Errorf("key %s of bucket %s: %q is no sequence", e.Key(), floorsBucket, e.Value())
				}
			}
			found[run] = r
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
