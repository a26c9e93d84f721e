package cli

import (
	"bytes"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
)

// Publishing to an unreachable server fails within the time limit and logs the failure once.
func TestPublish_UnreachableServerFailsWithinWait(t *testing.T) {
	address := natstest.FreeAddress(t)
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"publish", "--daemon", "nats://user:secret@" + address, "--wait", "1s", t.TempDir()},
		nil, &out, &errs)
	said := errs.String()
	for _, part := range []string{address, "connection refused", "start loaderd serve", "--daemon", "1s"} {
		if !strings.Contains(said, part) {
			t.Errorf("error lacks %q: %s", part, said)
		}
	}
	if n := strings.Count(said, "trying again"); code != command.ExitUnreachable || n != 1 {
		t.Errorf("exit %d and %d warnings, want exit %d and one: %s", code, n, command.ExitUnreachable, said)
	}
	if strings.Contains(said, "secret") || strings.Contains(said, "stream.") {
		t.Errorf("error gives the password away, or names keys instead of flags: %s", said)
	}
}

// publish waits for a server that starts within the time limit.
func TestPublish_WaitsForServer(t *testing.T) {
	s := natstest.Start(t)
	url := natstest.URL(s.Store())
	s.Stop()
	stderr := &notifyingWriter{part: "trying again", found: make(chan struct{})}
	ended := make(chan int, 1)
	var out bytes.Buffer
	go func() {
		ended <- Run(t.Context(), []string{"publish", "--daemon", url, "--wait", "1m", "-"},
			strings.NewReader(`{"text":"one"}`), &out, stderr)
	}()
	<-stderr.found
	s.Restart()
	if code := <-ended; code != command.ExitOK || !strings.Contains(out.String(), "committed 1 document ") {
		t.Errorf("exit %d: %s%s", code, &out, &stderr.said)
	}
}

// --wait 0 makes one attempt, which may take a moment.
func TestPublish_WaitZeroTriesOnce(t *testing.T) {
	srv := natstest.Start(t)
	var out, errs bytes.Buffer
	args := []string{"publish", "--daemon", natstest.URL(srv.Store()), "--wait", "0s", "-"}
	if code := Run(t.Context(), args, strings.NewReader(`{"text":"one"}`), &out, &errs); code != 0 {
		t.Errorf("exit status %d: %s", code, errs.String())
	}
}
