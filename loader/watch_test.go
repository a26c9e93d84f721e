package loader_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// cutDocs is a document stream whose servers are unreachable during a network cut.
type cutDocs struct {
	*memDocs
	cut  *atomic.Bool
	seen *atomic.Int64 // successful State calls
}

func (d cutDocs) State(ctx context.Context) (document.StreamState, error) {
	if d.cut.Load() {
		return document.StreamState{}, &fault.Error{Reason: fault.SourceDown, Message: "cut"}
	}
	d.seen.Add(1)
	return d.memDocs.State(ctx)
}

// During a network cut of 12 s a leader loses its lease, and its successor purges documents. After the cut, the
// deposed daemon observes the purge before its lease reports the loss. It reports no lost documents.
func TestLeader_PartitionedLeaderReportsNoLostDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := purging(config("concat"))
		cluster := newTestCluster()
		cluster.notices = time.Minute
		w.options.Ahead, w.options.CheckpointSteps = 2, 4
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		docs := cutDocs{w.docs, new(atomic.Bool), new(atomic.Int64)}
		first, _ := w.join(t, cluster, "first", func(e *backend.Backends) { e.Sources = onlySource{Documents: docs} })
		eventually(t, func() bool { return first.Info().Planned == 2 })
		second, _ := w.join(t, cluster, "second")

		docs.cut.Store(true)
		cluster.setDeaf(true)
		time.Sleep(2 * time.Second) // its lease expires
		cluster.depose(lossSuspected)
		read(t, second, state.RankID{World: 1}, 0, 40)
		_, err := second.Commit(t.Context(), planrecord.DefaultJob, 40)
		must(t, err)
		eventually(t, func() bool { return w.first() > 1 })
		time.Sleep(10 * time.Second)
		docs.seen.Store(0)
		docs.cut.Store(false)
		time.Sleep(5 * time.Second)
		if n := docs.seen.Load(); n < 2 {
			t.Fatalf("the deposed daemon has looked %d times at the stream", n)
		}
		if trouble := first.Stats().StreamProblem; trouble != "" {
			t.Errorf("the deposed daemon reports: %s", trouble)
		}
	})
}
