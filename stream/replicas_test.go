package stream_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/conn"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
)

// openWithCopies opens a store that is configured with a number of replicas, and everything that is stored in
// streams.
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

// openRun opens all streams of a run.
func openRun(t *testing.T, s *stream.Store, run string) {
	t.Helper()
	ctx := natstest.Context(t)
	plan, err := planlog.Open(ctx, s, run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoints.Open(ctx, plan); err != nil {
		t.Fatal(err)
	}
	if _, err := retention.Open(ctx, plan, plan.Documents()); err != nil {
		t.Fatal(err)
	}
}

// ofRun lists the streams of openWithCopies.
var ofRun = []string{"DOCS", "DOCS_DLQ", "PLAN_r", "OBJ_CHECKPOINTS_r", "KV_loaderd_checkpoints",
	"KV_loaderd_low_watermarks"}

// If a server cannot store the configured number of replicas of existing streams, each stream is logged and
// continues to work unchanged.
func TestReplicas_LogsStreamsThatCannotBeRaised(t *testing.T) {
	srv := natstest.StartEmbedded(t)
	var said natstest.LogBuffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	c := srv.Config()
	c.URL = natstest.URL(srv.Store())
	s := openWithCopies(t, c, 1, log)
	if text := said.String(); strings.Contains(text, "replicas") {
		t.Errorf("with one copy the log is: %s", text)
	}
	natstest.Publish(t, s, natstest.Documents(1, 1)...)
	s = openWithCopies(t, c, 3, log)
	for _, name := range ofRun {
		if want := "stream=" + name + " replicas=1 stream.replicas=3"; !strings.Contains(said.String(), want) {
			t.Errorf("the log does not contain %q: %s", want, said.String())
		}
	}
	holds(t, s, 1)
}

// Streams with one replica get three, with their messages, when a daemon requires three. A daemon that requires fewer
// does not lower them.
func TestReplicas_RaisedAndNeverLowered(t *testing.T) {
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
	cluster.AwaitSync("DOCS")
	for member := range 3 {
		if got := cluster.LastSeq(member, "DOCS"); got != 10 {
			t.Errorf("member %d has the documents up to %d, want 10", member, got)
		}
	}
}

// replicasOf returns the number of replicas of the streams of openWithCopies.
func replicasOf(t *testing.T, s *stream.Store) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, name := range ofRun {
		st, err := s.JetStream().Stream(natstest.Context(t), name)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = st.CachedInfo().Config.Replicas
	}
	return found
}

// Without stream.replicas all streams on a cluster of three servers have three replicas. On a cluster of two they
// have one, and the risk is logged.
func TestReplicas_DefaultFollowsClusterSize(t *testing.T) {
	clusters := testscale.Of(map[int]int{3: 3}, map[int]int{3: 3, 2: 1}) // a cluster of two must report this for seconds
	for servers, want := range clusters {
		t.Run(fmt.Sprint(servers, " servers"), func(t *testing.T) {
			cluster := natstest.StartCluster(t, servers)
			var said natstest.LogBuffer
			s := openWithCopies(t, cluster.Config(), 0, slog.New(slog.NewTextHandler(&said, nil)))
			for name, copies := range replicasOf(t, s) {
				if copies != want {
					t.Errorf("%s has %d copies, want %d", name, copies, want)
				}
				if told := strings.Contains(said.String(), "stream="+name+" replicas=1 want=3"); told != (want == 1) {
					t.Errorf("the log tells of too few copies of %s: %v, want %v: %s", name, told, want == 1, said.String())
				}
			}
		})
	}
}

// A daemon without a configured number of replicas does not change streams with one replica, and logs a warning
// for each.
func TestReplicas_NotRaisedWithoutConfiguration(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	openWithCopies(t, cluster.Config(), 1, quiet())
	var said natstest.LogBuffer
	s := openWithCopies(t, cluster.Config(), 0, slog.New(slog.NewTextHandler(&said, nil)))
	for name, copies := range replicasOf(t, s) {
		if copies != 1 {
			t.Errorf("%s has %d copies, want 1", name, copies)
		}
		if want := "stream=" + name + " replicas=1 want=3"; !strings.Contains(said.String(), want) {
			t.Errorf("the log does not contain %q: %s", want, said.String())
		}
	}
}

// Servers of a starting cluster have not discovered each other yet. A report of too few servers is final after
// half a minute.
func TestReplicas_TooFewServersIsFinalAfterTimeout(t *testing.T) {
	few := &jetstream.APIError{Code: 400, ErrorCode: 10074,
		Description: "replicas > 1 not supported in non-clustered mode"}
	for answered, final := range map[time.Duration]bool{0: false, 10 * time.Second: false, time.Minute: true} {
		err := stream.CreateReplicated(answered, func(int) error { return few })
		if !conn.IsTooFewServers(err) || conn.IsTransient(err) == final {
			t.Errorf("after %v: error %v, transient %v, want final %v", answered, err, conn.IsTransient(err), final)
		}
	}
}
