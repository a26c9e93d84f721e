package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
	"loaderd/internal/publishing"
	"loaderd/stream"
)

// documentServer is a NATS server with an empty document stream.
func documentServer(t *testing.T, change ...func(*stream.Config)) *stream.Store {
	t.Helper()
	cfg := stream.Default()
	cfg.Dir, cfg.Listen, cfg.MaxBytes = t.TempDir(), "127.0.0.1:0", 256<<20
	for _, c := range change {
		c(&cfg)
	}
	s, err := stream.Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// streamed reads the stream back; a message is "subject path id data".
func streamed(t *testing.T, s *stream.Store) []string {
	t.Helper()
	var all []string
	for _, m := range natstest.Stored(t, s) {
		h := m.Headers()
		all = append(all, strings.Join([]string{m.Subject(), h.Get(stream.HeaderPath), h.Get(stream.HeaderID),
			string(m.Data())}, " "))
	}
	return all
}

// publishes runs loaderd publish --json and returns its exit status and summary.
func publishes(t *testing.T, s *stream.Store, stdin string, args ...string) (int, publishing.Summary, string) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"publish", "--json", "--daemon", natstest.URL(s)}, args...)
	code := Run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	var sum publishing.Summary
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
			t.Fatalf("summary %q: %v", out.String(), err)
		}
	}
	return code, sum, errs.String()
}

func corpusFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func jsonLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"text\":\"line %d\",\"key\":\"k%d\"}\n", i, i)
	}
	return b.String()
}

func TestPublish_FolderTwiceStoresDocumentsOnce(t *testing.T) {
	s := documentServer(t)
	dir := corpusFolder(t, map[string]string{"a.txt": "text a", "b.txt": "", "c.bin": "\x00", "d.jsonl": jsonLines(3)})
	code, sum, stderr := publishes(t, s, "", "--source", "web", "--id-column", "key", dir)
	if code != command.ExitOK || sum.Documents != 4 || sum.Inputs != 2 || sum.InputsComplete != 2 ||
		sum.LastSequence != 4 ||
		sum.Skipped["empty"] != 1 || sum.Skipped["binary"] != 1 {
		t.Errorf("first: exit %d, %+v\n%s", code, sum, stderr)
	}
	code, sum, stderr = publishes(t, s, "", "--source", "web", "--id-column", "key", dir)
	if code != command.ExitOK || sum.Documents != 0 || sum.InputsComplete != 2 || sum.AlreadyStored != 4 {
		t.Errorf("again: exit %d, %+v\n%s", code, sum, stderr)
	}
	var out, errs bytes.Buffer
	args := []string{"publish", "--daemon", natstest.URL(s), "--source", "web", "--id-column", "key", dir}
	if code := Run(t.Context(), args, nil, &out, &errs); code != command.ExitOK ||
		!strings.HasPrefix(out.String(), "already published: 4 documents") {
		t.Errorf("in words: exit %d, %s%s", code, &out, &errs)
	}
	want := []string{"docs.web a.txt  text a", "docs.web d.jsonl k0 line 0", "docs.web d.jsonl k1 line 1",
		"docs.web d.jsonl k2 line 2"}
	if got := streamed(t, s); !slices.Equal(got, want) {
		t.Errorf("stream holds %q, want %q", got, want)
	}
}

func TestPublish_StandardInput(t *testing.T) {
	s := documentServer(t)
	fingerprint := "sha256:" + strings.Repeat("0a", 32)
	if code, sum, stderr := publishes(t, s, `{"text":"one"}`+"\n"+`{"text":"one"}`, "-"); code != command.ExitOK ||
		sum.Documents != 2 {
		t.Errorf("text: exit %d, %+v\n%s", code, sum, stderr)
	}
	if code, sum, stderr := publishes(t, s, `{"ids":[1,2]}`, "--tokenizer-fingerprint", fingerprint,
		"-"); code != command.ExitOK || sum.Documents != 1 {
		t.Errorf("tokens: exit %d, %+v\n%s", code, sum, stderr)
	}
	want := []string{"docs.files -  one", "docs.files -  one", "docs.files -  \x01\x00\x00\x00\x02\x00\x00\x00"}
	if got := streamed(t, s); !slices.Equal(got, want) {
		t.Errorf("stream holds %q, want %q", got, want)
	}
	st, err := s.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.GetMsg(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get(stream.HeaderTokenizer) != fingerprint || m.Header.Get(stream.HeaderContentType) != stream.TypeTokens {
		t.Errorf("headers of tokens are %v", m.Header)
	}
}

func TestPublish_ReportsFailures(t *testing.T) {
	s := documentServer(t, func(c *stream.Config) { c.MaxDocument = 1 << 10 })
	dir := corpusFolder(t, map[string]string{
		"bad.jsonl":   jsonLines(2) + "nonsense\n" + `{"text":"after"}`,
		"big.txt":     strings.Repeat("x", 2000),
		"empty.jsonl": "\n",
	})
	bad, big, empty := filepath.Join(dir, "bad.jsonl"), filepath.Join(dir, "big.txt"), filepath.Join(dir, "empty.jsonl")
	for _, c := range []struct {
		name      string
		args      []string
		code      int
		documents int64
		stderr    []string
	}{
		{"bad line", []string{"--source", "a", bad}, command.ExitFailed, 2,
			[]string{"bad.jsonl:3", "--skip-invalid", "committed 2 documents"}},
		{"bad line skipped", []string{"--source", "a", "--skip-invalid", bad}, command.ExitOK, 1, nil},
		{"too large", []string{big}, command.ExitFailed, 0, []string{"big.txt", "1024", "--skip-too-large"}},
		{"too large skipped", []string{"--skip-too-large", big}, command.ExitOK, 0, nil},
		{"no such file", []string{filepath.Join(dir, "absent")}, command.ExitFailed, 0, []string{"absent"}},
		{"bad source", []string{"--source", "a.b", bad}, command.ExitUsage, 0, []string{`"a.b"`, "--source"}},
		{"bad format", []string{"--format", "xml", bad}, command.ExitUsage, 0, []string{`"xml"`, "--format"}},
		{"bad address", []string{"--daemon", "http://here", bad}, command.ExitUsage, 0, []string{"--daemon", "http://here"}},
		{"certificate without key", []string{"--tls-cert", "a.pem", bad}, command.ExitUsage, 0, []string{"--tls-key"}},
		{"bad fingerprint", []string{"--tokenizer-fingerprint", "sha256:00", bad}, command.ExitUsage, 0,
			[]string{"--tokenizer-fingerprint", "64 hexadecimal"}},
		{"no fingerprint", []string{"--tokenizer-fingerprint", "", bad}, command.ExitUsage, 0,
			[]string{"--tokenizer-fingerprint"}},
		{"bad wait", []string{"--wait", "-1s", bad}, command.ExitUsage, 0, []string{"--wait"}},
		{"parquet from stdin", []string{"--format", "parquet", "-"}, command.ExitUsage, 0, []string{"Parquet"}},
		{"empty folder", []string{t.TempDir()}, command.ExitFailed, 0, []string{"no documents in /"}},
		{"empty file", []string{empty}, command.ExitFailed, 0, []string{"no documents in ", "empty.jsonl"}},
		{"empty file again", []string{empty}, command.ExitFailed, 0, []string{"no documents in ", "empty.jsonl"}},
		{"nothing to read", []string{"-"}, command.ExitFailed, 0, []string{"no documents in standard input"}},
		{"no path", nil, command.ExitUsage, 0, []string{"requires at least 1 arg"}},
		{"stdin and a file", []string{"-", bad}, command.ExitUsage, 0, []string{"standard input"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, sum, stderr := publishes(t, s, "", c.args...)
			if code != c.code || sum.Documents != c.documents {
				t.Errorf("exit %d and %+v, want exit %d and %d documents\n%s", code, sum, c.code, c.documents, stderr)
			}
			if strings.Contains(stderr, "same command again") {
				t.Errorf("promises that the same command helps: %s", stderr)
			}
			for _, part := range c.stderr {
				if !strings.Contains(stderr, part) {
					t.Errorf("error lacks %q: %s", part, stderr)
				}
			}
		})
	}
}

// An input that cannot be read does not prevent the publishing of other inputs, and is reported at the end.
func TestPublish_ContinuesAfterUnreadableInput(t *testing.T) {
	s := documentServer(t)
	dir := corpusFolder(t, map[string]string{"a.jsonl.gz": "\x1f\x8b\x08", "b.jsonl": jsonLines(2) + "nonsense\n" +
		jsonLines(1), "c.jsonl": "no JSON", "d.jsonl": jsonLines(3)})
	paths := []string{filepath.Join(dir, "a.jsonl.gz"), filepath.Join(dir, "b.jsonl"), filepath.Join(dir, "c.jsonl"),
		filepath.Join(dir, "d.jsonl")}
	for source, args := range map[string][]string{"folder": {dir}, "files": paths} {
		code, sum, stderr := publishes(t, s, "", append([]string{"--source", source}, args...)...)
		if code != command.ExitFailed || sum.Documents != 5 || sum.InputsComplete != 1 || sum.InputsFailed != 3 ||
			len(sum.Problems) != 3 {
			t.Errorf("exit %d, %+v: %s", code, sum, stderr)
		}
		for i, what := range []string{"a.jsonl.gz: gzip data is truncated", "b.jsonl:3: not a JSON object",
			"c.jsonl: its name promises JSON lines"} {
			if i < len(sum.Problems) && !strings.Contains(sum.Problems[i], what) {
				t.Errorf("problem %d is %q, want %q", i, sum.Problems[i], what)
			}
		}
		if !strings.Contains(stderr, "3 inputs are not read to their end, the first: ") ||
			!strings.Contains(stderr, "committed 5 documents") {
			t.Errorf("stderr %q", stderr)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.jsonl.gz"),
			[]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, sum, stderr = publishes(t, s, "", append([]string{"--source", source, "--skip-invalid"}, args...)...)
		if code != command.ExitFailed || sum.Documents != 1 || sum.InputsFailed != 1 || sum.Skipped["trailing"] != 1 ||
			len(sum.Warnings) != 1 {
			t.Errorf("repaired: exit %d, %+v: %s", code, sum, stderr)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.jsonl.gz"), []byte("\x1f\x8b\x08"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// loaderdProcess runs this test binary as the command.
func loaderdProcess(args ...string) (*exec.Cmd, *bytes.Buffer) {
	var out bytes.Buffer
	return &exec.Cmd{Path: os.Args[0], Args: append([]string{"loaderd"}, args...), Env: os.Environ(), Stdout: &out,
		Stderr: &out}, &out
}

// awaitDocuments waits until the stream holds more than n documents.
func awaitDocuments(t *testing.T, s *stream.Store, n uint64) {
	t.Helper()
	st, err := s.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		info, err := st.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs > n {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("stream holds %d documents after a minute, want more than %d", info.State.Msgs, n)
		}
	}
}

// A publish that is killed twice, interrupted once and then completed stores every document once and in order.
func TestPublish_ResumesAfterKillWithoutDuplicates(t *testing.T) {
	const n = 60_000
	dir := corpusFolder(t, map[string]string{"d.jsonl": jsonLines(n), "d.npy": npyOfPairs(n)})
	t.Run("lines", func(t *testing.T) {
		goesOnAfterKills(t, n, func(i int) string {
			return fmt.Sprintf("docs.files d.jsonl  line %d", i)
		}, filepath.Join(dir, "d.jsonl"))
	})
	t.Run("token ids", func(t *testing.T) {
		goesOnAfterKills(t, n, func(i int) string {
			return "docs.files d.npy  " + pairOfIDs(i)
		}, "--tokenizer-fingerprint", "sha256:"+strings.Repeat("0a", 32),
			"--end-token", "99", filepath.Join(dir, "d.npy"))
	})
}

func goesOnAfterKills(t *testing.T, n int, want func(i int) string, args ...string) {
	t.Helper()
	s := documentServer(t)
	importArgs := append([]string{"import", "--daemon", natstest.URL(s)}, args...)
	for _, stop := range []struct {
		signal syscall.Signal
		after  uint64
	}{{syscall.SIGKILL, 0}, {syscall.SIGKILL, 8_000}, {syscall.SIGINT, 20_000}} {
		cmd, out := loaderdProcess(importArgs...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitDocuments(t, s, stop.after)
		if err := cmd.Process.Signal(stop.signal); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%v: ended with %v before the signal: the corpus is too small", stop.signal, err)
		}
		if stop.signal == syscall.SIGINT {
			if exit.ExitCode() != command.ExitFailed || !strings.Contains(out.String(), "interrupted: ") ||
				!strings.Contains(out.String(), "run the same command again to continue") {
				t.Errorf("interrupted with exit %d: %s", exit.ExitCode(), out)
			}
		}
	}
	if code, sum, stderr := publishes(t, s, "", args...); code != command.ExitOK ||
		sum.Documents+sum.Duplicates != int64(n) || sum.Documents == int64(n) || sum.Duplicates == 0 {
		t.Errorf("last run: exit %d, %+v\n%s", code, sum, stderr)
	}
	got := streamed(t, s)
	if len(got) != n {
		t.Fatalf("stream holds %d documents, want %d", len(got), n)
	}
	for i, d := range got {
		if d != want(i) {
			t.Fatalf("document %d is %q, want %q", i, d, want(i))
		}
	}
}

// A full stream does not delay an interrupt.
func TestPublish_StopsWhileStreamIsFull(t *testing.T) {
	path := filepath.Join(corpusFolder(t, map[string]string{"d.jsonl": jsonLines(30_000)}), "d.jsonl")
	t.Run("file", func(t *testing.T) { stopsWhileItWaits(t, path, true) })
	t.Run("standard input", func(t *testing.T) { stopsWhileItWaits(t, "-", false) })
}

func stopsWhileItWaits(t *testing.T, path string, goesOn bool) {
	t.Helper()
	s := documentServer(t, func(c *stream.Config) { c.MaxBytes = 1 << 20 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &notifyingWriter{part: "waiting: stream is full", found: make(chan struct{})}
	ended := make(chan int, 1)
	var out bytes.Buffer
	go func() {
		ended <- Run(ctx, []string{"publish", "--json", "--daemon", natstest.URL(s), path},
			strings.NewReader(jsonLines(30_000)), &out, stderr)
	}()
	<-stderr.found
	cancel()
	if code := <-ended; code != command.ExitFailed {
		t.Errorf("exit %d, want %d", code, command.ExitFailed)
	}
	if strings.Contains(stderr.said.String(), "run the same command again to continue") != goesOn {
		t.Errorf("output %q, want advice to continue: %t", stderr.said.String(), goesOn)
	}
	if said := stderr.said.String(); !strings.Contains(said, "stream.max_bytes") || strings.Contains(said, "continuing") ||
		strings.Contains(said, "readers") {
		t.Errorf("output %q, want advice to make room and no report of continuing", said)
	}
	var sum publishing.Summary
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
		t.Fatal(err)
	}
	if got := len(streamed(t, s)); !sum.Interrupted || sum.Documents != int64(got) || sum.WaitedSeconds <= 0 {
		t.Errorf("summary %+v with %d documents in the stream", sum, got)
	}
}

// notifyingWriter closes found when part was written.
type notifyingWriter struct {
	part  string
	found chan struct{}
	done  bool
	said  bytes.Buffer
}

func (w *notifyingWriter) Write(p []byte) (int, error) {
	if !w.done && bytes.Contains(p, []byte(w.part)) {
		w.done = true
		close(w.found)
	}
	return w.said.Write(p)
}
