package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
	"loaderd/internal/publishing"
	"loaderd/stream"
	"loaderd/stream/retention"
)

// A named source is only a label if the run has one source.
func TestPublish_WarnsOfSourceWithoutStream(t *testing.T) {
	s := newSite(t)
	s.serve()
	file := filepath.Join(corpusFolder(t, map[string]string{"a.jsonl": jsonLines(3)}), "a.jsonl")
	for _, x := range []struct {
		args []string
		want bool
	}{{nil, false}, {[]string{"--source", "math"}, true}} {
		code, _, stderr := s.loaderd(append([]string{"publish", file}, x.args...)...)
		if warns := strings.Contains(stderr, "--source math only names them"); code != command.ExitOK || warns != x.want {
			t.Errorf("%v: exit %d, %s", x.args, code, stderr)
		}
	}
}

// Publishing after the end of a run prints a warning, and names a run that still reads the new documents.
func TestPublish_WarnsAfterSeal(t *testing.T) {
	s := newSite(t)
	dir := corpusFolder(t, map[string]string{"a.jsonl": jsonLines(50), "b.jsonl": jsonLines(60), "c.jsonl": jsonLines(70)})
	file := func(name string) string { return filepath.Join(dir, name) }
	publish := func(name string) (publishing.Summary, string) {
		t.Helper()
		code, stdout, stderr := s.loaderd("publish", "--json", file(name))
		var sum publishing.Summary
		if err := json.Unmarshal([]byte(stdout), &sum); code != command.ExitOK || err != nil {
			t.Fatalf("exit status %d, %v: %s%s", code, err, stdout, stderr)
		}
		return sum, stderr
	}
	stop := s.serve("--run", "first")
	if sum, stderr := publish("a.jsonl"); sum.UnreadBy != nil || stderr != "" {
		t.Errorf("before the seal: %+v %s", sum, stderr)
	}
	s.does("seal")
	sum, stderr := publish("b.jsonl")
	if !slices.Equal(sum.UnreadBy, []publishing.SealedRun{{Run: "first", End: 50}}) {
		t.Errorf("after the seal: %+v", sum)
	}
	for _, part := range []string{"run first is sealed at document 50", "no other run reads this stream",
		"loaderd serve --run", "start of its source"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("after the seal, output lacks %q: %s", part, stderr)
		}
	}
	stop()
	stop = s.serve("--run", "second")
	defer stop()
	c := stream.Default()
	c.URL, c.Dir = "nats://"+s.nats, s.dir
	store := natstest.Open(t, c)
	defer store.Close()
	natstest.Eventually(t, "the second run has reported to producers", func() bool {
		known, err := retention.Readers(t.Context(), store)
		return err == nil && slices.Contains(known, retention.ReadingRun{Run: "second"})
	})
	code, stdout, stderr := s.loaderd("publish", file("c.jsonl"))
	if code != command.ExitOK || !strings.Contains(stdout, "not read by run first, which ends at document 50\n") ||
		!strings.Contains(stderr, "read by second") {
		t.Errorf("with another run: exit status %d: %s%s", code, stdout, stderr)
	}
}
