package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// A client that fails in a loop does not fill the log: lines of one kind are rate-limited, with the number of
// suppressed ones. Lines of other kinds are logged meanwhile.
func TestServerLog_RateLimitsClientFailures(t *testing.T) {
	var said bytes.Buffer
	l := &serverLog{log: slog.New(slog.NewTextHandler(&said, nil)), fatal: make(chan error, 1)}
	for i := range 10_000 {
		l.Errorf(fmt.Sprintf("127.0.0.1:%d - cid:%d - %q - authentication error", i, i, strings.Repeat("name - ", i%3)))
	}
	l.Errorf("%s", "something else")
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) < firstLines+1 || len(lines) > firstLines+60 { // the test takes less than a minute
		t.Errorf("%d lines of 10,001 failures", len(lines))
	}
	if !strings.Contains(said.String(), "something else") {
		t.Error("another failure is not reported")
	}
	if len(l.limiters) != 2 {
		t.Errorf("%d kinds, want 2", len(l.limiters))
	}
}
