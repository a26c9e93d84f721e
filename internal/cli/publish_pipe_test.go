package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
)

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A pipe whose writer pauses does not delay SIGTERM; the input read before the signal is in the stream when the
// command exits.
func TestPublish_StopsWhilePipeIsIdle(t *testing.T) {
	s := documentServer(t)
	path := fifo(t)
	cmd, out := loaderdProcess("publish", "--daemon", natstest.URL(s), path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := io.WriteString(w, jsonLines(3)+`{"text":"unfinished`); err != nil {
		t.Fatal(err)
	}
	awaitDocuments(t, s, 2)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != command.ExitFailed ||
		!strings.Contains(out.String(), "interrupted: committed 3 documents") {
		t.Errorf("%v: %s", err, out)
	}
	if got := len(streamed(t, s)); got != 3 {
		t.Errorf("the stream holds %d documents, want 3", got)
	}
}

// Documents read from a pipe are committed after a short delay, although the pipe stays open and no batch is full.
func TestPublish_CommitsPartialBatchOfIdlePipe(t *testing.T) {
	s := documentServer(t)
	r, w := io.Pipe()
	var out, errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Run(t.Context(), []string{"publish", "--daemon", natstest.URL(s), "-"}, r, &out, &errs)
	}()
	for i, line := range slices.Collect(strings.Lines(jsonLines(3))) {
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
		awaitDocuments(t, s, uint64(i))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != command.ExitOK || !strings.Contains(out.String(), "committed 3 documents") {
		t.Errorf("exit %d: %s%s", code, &out, &errs)
	}
}
