package stream_test

import (
	"log/slog"
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/planlog"
)

// openWithCopies opens a store that asks for a number of copies, and everything that is kept in streams.
func openWithCopies(t *testing.T, c stream.Config, replicas int, log *slog.Logger) *stream.Store {
	t.Helper()
	c.Dir, c.Listen, c.Replicas = "", "", replicas
	s, err := stream.Open(natstest.Context(t), c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	openDocuments(t, s)
	openRun(t, s, "r")
	return s
}

// openRun opens all that is kept of a run.
func openRun(t *testing.T, s *stream.Store, run string) {
	t.Helper()
	ctx := natstest.Context(t)
	plan, err := planlog.Open(ctx, s, run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planlog.OpenCheckpoints(ctx, plan); err != nil {
		t.Fatal(err)
	}
	if _, err := planlog.OpenFloors(ctx, plan); err != nil {
		t.Fatal(err)
	}
}

// ofRun are the streams of openWithCopies.
var ofRun = []string{"DOCS", "DOCS_DEAD", "PLAN_r", "OBJ_CHECKPOINTS_r", "KV_loaderd_checkpoints", "KV_loaderd_floors"}

// A server that cannot keep as many copies of the streams that are there as the configuration asks for: the log says so of each, and the
// streams serve as they are.
func TestCopiesThatCannotBeRaisedAreTold(t *testing.T) {
	srv := natstest.StartEmbedded(t)
	var said natstest.LogBuffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	c := srv.Config()
	c.URL = srv.Store().ClientURL()
	s := openWithCopies(t, c, 1, log)
	if text := said.String(); strings.Contains(text, "replicas") {
		t.Errorf("with one copy the log says %s", text)
	}
	natstest.Publish(t, s, natstest.Documents(1, 1)...)
	s = openWithCopies(t, c, 3, log)
	for _, name := range ofRun {
		if want := "stream=" + name + " replicas=1 stream.replicas=3"; !strings.Contains(said.String(), want) {
			t.Errorf("the log does not say %q: %s", want, said.String())
		}
	}
	holds(t, s, 1)
}

// Streams that were made with one copy get three, with what they hold, when a daemon asks for three; one that asks for fewer leaves them.
func TestCopiesAreRaisedAndNeverLowered(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	natstest.Publish(t, openWithCopies(t, cluster.Config(), 1, quiet()), natstest.Documents(1, 10)...)
	for _, replicas := range []int{3, 1} {
		s := openWithCopies(t, cluster.Config(), replicas, quiet())
		for _, name := range ofRun {
			st, err := s.JetStream().Stream(natstest.Context(t), name)
			if err != nil {
				t.Fatal(err)
			}
			if got := st.CachedInfo().Config.Replicas; got != 3 {
				t.Errorf("asked for %d copies, %s has %d, want 3", replicas, name, got)
			}
		}
	}
	cluster.Settle("DOCS")
	for member := range 3 {
		if got := cluster.LastSeq(member, "DOCS"); got != 10 {
			t.Errorf("member %d has the documents up to %d, want 10", member, got)
		}
	}
}
