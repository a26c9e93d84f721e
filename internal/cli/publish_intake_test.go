package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
	"loaderd/internal/publishing"
	"loaderd/loader/plan"
	"loaderd/stream"
	"loaderd/stream/retention"
)

// reported waits until a run has sent its report to producers.
func (s *site) reported(run string) {
	s.t.Helper()
	c := stream.Default()
	c.URL, c.Dir = "nats://"+s.nats, s.dir
	store := natstest.Open(s.t, c)
	defer store.Close()
	natstest.Eventually(s.t, "the run has reported to producers", func() bool {
		known, err := retention.Intakes(s.t.Context(), store, []string{run})
		_, ok := known[run]
		return err == nil && ok
	})
}

func TestPublish_RefusesTokenizerUnlikeRun(t *testing.T) {
	s := newSite(t)
	stop := s.serve("--tokenizer", "gpt2", "--run", "a")
	defer stop()
	s.reported("a")
	file := filepath.Join(corpusFolder(t, map[string]string{"a.jsonl": `{"ids":[1,2,3]}` + "\n"}), "a.jsonl")
	code, stdout, stderr := s.loaderd("publish", "--tokenizer", "cl100k_base", file)
	if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, "run a has tokenizer gpt2 (sha256:") ||
		!strings.Contains(stderr, "every document would become a dead letter") {
		t.Errorf("exit status %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := s.loaderd("publish", "--tokenizer", "gpt2", file); code != command.ExitOK ||
		!strings.HasPrefix(stdout, "committed 1 document ") || strings.Contains(stdout, "skipped") {
		t.Errorf("with the run's own: exit status %d: %s%s", code, stdout, stderr)
	}
}

func TestPublish_RefusesTextForTokenIDRun(t *testing.T) {
	s := newSite(t)
	fingerprint := "sha256:" + strings.Repeat("0a", 32)
	stop := s.serve("--run", "a", "--set", "tokenizer.name=none", "--set", "tokenizer.fingerprint="+fingerprint, "--set",
		"tokenizer.vocab_size=100", "--set", "tokenizer.end=none",
		"--set", "tokenizer.pad=0")
	defer stop()
	s.reported("a")
	file := filepath.Join(corpusFolder(t, map[string]string{"a.jsonl": jsonLines(3)}), "a.jsonl")
	if code, stdout, stderr := s.loaderd("publish", file); code != command.ExitFailed || stdout != "" ||
		!strings.Contains(stderr, "run a takes token ids alone") {
		t.Errorf("exit status %d: %s%s", code, stdout, stderr)
	}
}

// The summary counts published documents that a run skips, and the exit status signals documents that it cannot
// decode.
func TestPublish_SummaryCountsSkippedDocuments(t *testing.T) {
	s := newSite(t)
	fingerprint := "sha256:" + strings.Repeat("0a", 32)
	stop := s.serve("--run", "a", "--set", "tokenizer.name=none", "--set", "tokenizer.fingerprint="+fingerprint, "--set",
		"tokenizer.vocab_size=100", "--set", "tokenizer.end=none",
		"--set", "tokenizer.pad=0", "--set", "documents.max_tokens.at=4", "--set", "documents.max_tokens.do=drop")
	defer stop()
	s.reported("a")
	dir := corpusFolder(t, map[string]string{"good.jsonl": `{"ids":[1,2]}` + "\n", "bad.jsonl": `{"ids":[7,100]}` + "\n" +
		`{"ids":[1,2,3]}` + "\n" + `{"ids":[1,2,3,4,5]}` + "\n" + `{"ids":[101]}` + "\n",
		"long.jsonl": `{"ids":[5,6,7,8,9]}` + "\n"})
	publish := func(name string) (int, publishing.Summary, string) {
		code, stdout, stderr := s.loaderd("publish", "--json", "--tokenizer-fingerprint", fingerprint,
			filepath.Join(dir, name))
		var sum publishing.Summary
		if err := json.Unmarshal([]byte(stdout), &sum); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		return code, sum, stderr
	}
	skips := func(undecodable, long int64) (s plan.Skips) {
		s.Add(plan.SkipUndecodable, undecodable)
		s.Add(plan.SkipLong, long)
		return s
	}
	for _, tt := range []struct {
		name    string
		code    int
		read    int64
		skipped plan.Skips
		stderr  string
	}{
		{"bad.jsonl", command.ExitRejected, 4, skips(2, 1),
			"run a failed to decode 2 of the 4 documents (of all producers) " +
				"that it read during this publish: see loaderd dlq list"},
		{"good.jsonl", command.ExitOK, 1, skips(0, 0), ""}, // counts restart at zero
		{"long.jsonl", command.ExitOK, 1, skips(0, 1), ""},
	} {
		code, sum, stderr := publish(tt.name)
		if code != tt.code || len(sum.Runs) != 1 ||
			sum.Runs[0] != (publishing.RunIntake{Run: "a", Read: tt.read, Skipped: tt.skipped, Filling: true}) ||
			!strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: exit status %d, %+v: %s", tt.name, code, sum.Runs, stderr)
		}
	}
}
