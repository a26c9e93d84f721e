package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
)

// appears adds a file to a folder as a writer should: under a name that is ignored, then renamed.
func appears(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".tmp", []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
}

// manyLines returns JSON lines "NAME 0" and so on.
func manyLines(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"text\":\"%s %d\"}\n", name, i)
	}
	return b.String()
}

// texts returns the texts of a stream's documents, without the other columns of streamed.
func texts(all []string) string {
	var b strings.Builder
	for _, line := range all {
		b.WriteString(strings.SplitN(line, " ", 4)[3] + ";")
	}
	return b.String()
}

// A follower is stopped, started and ended by its end marker; files appear before, between and during its runs. Each
// file is published once, in the order in which it appeared.
func TestFollow_PublishesNewFilesInOrder(t *testing.T) {
	s := documentServer(t)
	dir := t.TempDir()
	args := []string{"publish", "--daemon", natstest.URL(s), "--follow", "--follow-settle", "0", "--follow-every", "10ms",
		filepath.Join(dir, "*.jsonl")}
	appears(t, dir, "b.jsonl", manyLines("b", 2))
	appears(t, dir, "d.jsonl", manyLines("d", 1))
	cmd, out := loaderdProcess(args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitDocuments(t, s, 2)
	appears(t, dir, "c.jsonl", manyLines("c", 1))
	awaitDocuments(t, s, 3)
	appears(t, dir, "other.txt", "not asked for")
	appears(t, dir, "a.jsonl", manyLines("a", 2))
	awaitDocuments(t, s, 5)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "committed 6 documents") ||
		!strings.Contains(out.String(), "4 of 4 inputs complete") {
		t.Fatalf("%v: %s", err, out)
	}

	// Between the runs one file appears, one vanishes and one grows. The growth is reported and does not change the
	// stream.
	appears(t, dir, "00.jsonl", manyLines("00", 1))
	if err := os.Remove(filepath.Join(dir, "d.jsonl")); err != nil {
		t.Fatal(err)
	}
	appears(t, dir, "b.jsonl", manyLines("b", 3))
	appears(t, dir, "end", "")
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), append(args, "--follow-until", filepath.Join(dir, "end")), nil, &stdout, &stderr)
	if code != command.ExitOK || !strings.Contains(stdout.String(), "committed 1 document ") ||
		!strings.Contains(stdout.String(), "skipped: 1 changed") ||
		!strings.Contains(stderr.String(), filepath.Join(dir, "b.jsonl")+" has changed since it was published") {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
	if got, want := texts(streamed(t, s)), "b 0;b 1;d 0;c 0;a 0;a 1;00 0;"; got != want {
		t.Errorf("the stream holds %s, want %s", got, want)
	}
}

// A file that cannot be read is reported immediately, and the files after it are published.
func TestFollow_ContinuesAfterUnreadableFile(t *testing.T) {
	s := documentServer(t)
	dir := t.TempDir()
	appears(t, dir, "a.jsonl.gz", "\x1f\x8b\x08")
	appears(t, dir, "b.jsonl", manyLines("b", 1)+"nonsense")
	appears(t, dir, "c.jsonl", manyLines("c", 1))
	end := filepath.Join(t.TempDir(), "end")
	appears(t, filepath.Dir(end), "end", "")
	code, sum, stderr := publishes(t, s, "", "--follow", "--follow-settle", "0", "--follow-every", "10ms",
		"--follow-until", end, filepath.Join(dir, "*"))
	if code != command.ExitFailed || sum.Documents != 2 || sum.InputsComplete != 1 || sum.InputsFailed != 2 ||
		strings.Count(stderr, "warning: not read to its end: ") != 2 {
		t.Errorf("exit %d, %+v: %s", code, sum, stderr)
	}
}

// A follower is killed while it publishes. The next one publishes the remaining files before a file that appeared in
// the meantime, regardless of the file's name.
func TestFollow_KeepsOrderAfterKill(t *testing.T) {
	s := documentServer(t)
	dir := t.TempDir()
	const files, lines = 12, 2500
	var want strings.Builder
	for i := range files {
		name := fmt.Sprintf("%02d.jsonl", i+1)
		appears(t, dir, name, manyLines(name, lines))
		for line := range lines {
			fmt.Fprintf(&want, "%s %d;", name, line)
		}
	}
	args := []string{"publish", "--daemon", natstest.URL(s), "--follow", "--follow-settle", "0", "--follow-every",
		"10ms", dir}
	cmd, _ := loaderdProcess(args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitDocuments(t, s, lines/2)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	appears(t, dir, "00.jsonl", manyLines("late", 1))
	want.WriteString("late 0;")
	end := filepath.Join(t.TempDir(), "end")
	appears(t, filepath.Dir(end), "end", "")
	var stdout, stderr bytes.Buffer
	if code := Run(t.Context(), append(args, "--follow-until", end), nil, &stdout, &stderr); code != command.ExitOK {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
	if got := texts(streamed(t, s)); got != want.String() {
		at := 0
		for at < min(len(got), want.Len()) && got[at] == want.String()[at] {
			at++
		}
		t.Errorf("another order from byte %d on: %.60s, want %.60s (%s)", at, got[at:], want.String()[at:], &stdout)
	}
}

func TestFollow_RefusesInvalidArguments(t *testing.T) {
	s := documentServer(t)
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"--follow", "-"}, "needs local files"},
		{[]string{"--follow", "s3://bucket/x"}, "needs local files"},
		{[]string{"--follow", "--dry-run", "."}, "remove --follow"},
		{[]string{"--follow", "--follow-every", "0s", "."}, "--follow-every 0s"},
		{[]string{"--follow", "--follow-settle", "-1s", "."}, "--follow-settle -1s"},
		{[]string{"--follow-until", "end", "."}, "--follow-until needs --follow"},
		{[]string{"--follow", "nowhere/*.jsonl"}, "does not exist: create it first"},
	} {
		if code, _, stderr := publishes(t, s, "", c.args...); code == command.ExitOK || !strings.Contains(stderr, c.said) {
			t.Errorf("%v: exit %d: %s", c.args, code, stderr)
		}
	}
}
