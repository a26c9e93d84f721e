package endtoend_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/internal/runadmin"
	"loaderd/internal/testscale"
	"loaderd/stream"
	"loaderd/stream/lease"
	"loaderd/stream/retention"
)

// briefly returns settings with which a document is needed for a short time only.
func briefly(t *testing.T) config.Config {
	t.Helper()
	c := daemontest.Settings(t, "")
	c.Plan.Packing.Pool, c.Plan.Packing.MaxAge, c.Plan.Shuffle.Window = 16, 64, 4
	return c
}

// begun returns the settings and the steps of a run on one machine that was stopped in the middle. The first of its
// documents are purged, and some others are deleted.
func begun(t *testing.T, messages []stream.Message, steps uint64) (config.Config, []flightclient.Batch) {
	t.Helper()
	c := briefly(t)
	d := daemontest.Start(t, c)
	daemontest.Publish(t, natstest.URL(d.Store()), messages)
	first := daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: steps})
	kept, err := d.Store().JetStream().Stream(t.Context(), "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Purge(t.Context(), jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	for _, sequence := range []uint64{6, 9} {
		if err := kept.DeleteMsg(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
	}
	daemontest.Stop(t, d)
	return c, first
}

// migration returns the migration from a folder to a cluster.
func migration(t *testing.T, c config.Config, cluster *natstest.Cluster) *runadmin.Migration {
	t.Helper()
	from, err := stream.OpenExclusive(t.Context(), c.Stream, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	return &runadmin.Migration{From: from, To: cluster.Store(), Self: lease.NewLeaderInfo("test", 1),
		Progress: func(string, int64, int64) {}}
}

// A run that began on one machine continues on a cluster of three with the same steps, however often its copy was
// interrupted.
func TestMigrate_RunContinuesOnCluster(t *testing.T) {
	messages := daemontest.GoSource(t, 300)
	c := briefly(t)
	undisturbed := daemontest.Start(t, c)
	daemontest.Publish(t, natstest.URL(undisturbed.Store()), messages)
	daemontest.Seal(t, undisturbed)
	want := daemontest.Read(t, undisturbed.FlightURI(), api.Ticket{})
	daemontest.Stop(t, undisturbed)

	const steps, resumed = 40, 60 // documents of the steps between are purged or deleted
	c, first := begun(t, messages[:250], steps)
	if !reflect.DeepEqual(first, want[:steps]) {
		t.Fatal("the run differs before it moves")
	}
	cluster := natstest.StartCluster(t, 3)
	m := migration(t, c, cluster)
	// An interrupted copy keeps the name for seconds.
	for _, at := range testscale.Of([]string{"compare DOCS"}, []string{"copy DOCS", "copy PLAN_default", "compare DOCS",
		"compare PLAN_default"}) {
		killed, kill := context.WithCancel(t.Context())
		again := anew(m)
		again.Progress = func(what string, _, _ int64) {
			if what == at {
				kill()
			}
		}
		if _, err := again.Execute(killed); !errors.Is(err, context.Canceled) {
			t.Fatalf("broken off at %s: %v", at, err)
		}
	}
	done, err := anew(m).Execute(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done.Runs, []string{"default"}) {
		t.Errorf("it copied %+v", done)
	}
	if _, err := anew(m).Execute(natstest.Context(t)); !errors.Is(err, runadmin.ErrStreamExists) {
		t.Errorf("a migration that is finished, once more: %v, want %v", err, runadmin.ErrStreamExists)
	}
	cluster.AwaitSync("DOCS", "PLAN_default")
	cluster.StepDown("DOCS") // the server's creation time of a copy differs
	cluster.StepDown("PLAN_default")

	c.Stream.URL = cluster.Config().URL
	moved := daemontest.Start(t, c)
	daemontest.Publish(t, cluster.Config().URL, messages[250:])
	daemontest.Seal(t, moved)
	got := daemontest.Read(t, moved.FlightURI(), api.Ticket{Step: resumed})
	if !reflect.DeepEqual(got, want[resumed:]) {
		t.Errorf("the %d steps behind the move differ from the %d of the run that did not move", len(got), len(want)-resumed)
	}
	checkMoved(t, moved)
}

// anew returns the same migration for another process.
func anew(m *runadmin.Migration) *runadmin.Migration {
	return &runadmin.Migration{From: m.From, To: m.To, Self: m.Self, Progress: m.Progress}
}

// checkMoved checks the streams that a run has on the cluster.
func checkMoved(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	for _, name := range []string{"DOCS", "DOCS_DLQ", "PLAN_default", "OBJ_CHECKPOINTS_default",
		"KV_loaderd_low_watermarks",
		"KV_loaderd_checkpoints"} {
		st, err := d.Store().ForStream(name).JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if copies := st.CachedInfo().Config.Replicas; copies != 3 {
			t.Errorf("%s has %d copies, want 3", name, copies)
		}
	}
	docs, err := d.Store().JetStream().Stream(t.Context(), "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	if s := docs.CachedInfo().State; s.FirstSeq != 4 || s.NumDeleted != 2 || s.LastSeq != 300 {
		t.Errorf("the documents are %d to %d, %d deleted among them, want 4 to 300 and 2", s.FirstSeq, s.LastSeq,
			s.NumDeleted)
	}
	if runs, err := retention.Runs(t.Context(), d.Store()); err != nil || len(runs) != 1 || !runs[0].Sealed {
		t.Errorf("runs over the stream: %+v, %v, want the sealed one", runs, err)
	}
}
