package stream_test

import (
	"log/slog"
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/planlog"
)

// A server that cannot keep as many copies of the streams that are there as the configuration asks for: the log says so of each, and the
// streams serve as they are.
func TestCopiesThatCannotBeRaisedAreTold(t *testing.T) {
	srv := natstest.Start(t)
	var said natstest.LogBuffer
	open := func(replicas int) *stream.Store {
		t.Helper()
		c := srv.Config()
		c.URL, c.Dir, c.Listen, c.Replicas = srv.Store().ClientURL(), "", "", replicas
		s, err := stream.Open(natstest.Context(t), c, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		openDocuments(t, s)
		if _, err := planlog.Open(natstest.Context(t), s, "r"); err != nil {
			t.Fatal(err)
		}
		if _, err := planlog.OpenCheckpoints(natstest.Context(t), s, "r"); err != nil {
			t.Fatal(err)
		}
		if _, err := planlog.OpenFloors(natstest.Context(t), s, "r"); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(1)
	if text := said.String(); strings.Contains(text, "replicas") {
		t.Errorf("with one copy the log says %s", text)
	}
	natstest.Publish(t, s, natstest.Documents(1, 1)...)
	s = open(3)
	for _, name := range []string{"DOCS", "DOCS_DEAD", "PLAN_r", "OBJ_CHECKPOINTS_r", "KV_loaderd_floors"} {
		if want := "stream=" + name + " replicas=1 stream.replicas=3"; !strings.Contains(said.String(), want) {
			t.Errorf("the log does not say %q: %s", want, said.String())
		}
	}
	holds(t, s, 1)
}
