package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// Who fails in a loop fills no disk: lines of one kind are told now and then, with how many there were, and others are
// told beside them.
func TestFailuresOfClientsAreToldNowAndThen(t *testing.T) {
	var said bytes.Buffer
	l := &serverLog{log: slog.New(slog.NewTextHandler(&said, nil)), fatal: make(chan error, 1)}
	for i := range 10_000 {
		l.Errorf(fmt.Sprintf("127.0.0.1:%d - cid:%d - %q - authentication error", i, i, strings.Repeat("name - ", i%3)))
	}
	l.Errorf("%s", "something else")
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) < failuresFirst+1 || len(lines) > failuresFirst+60 { // it takes no minute
		t.Errorf("%d lines of 10,001 failures", len(lines))
	}
	if !strings.Contains(said.String(), "something else") {
		t.Error("another failure is not told")
	}
	if len(l.of) != 2 {
		t.Errorf("%d kinds, want 2", len(l.of))
	}
}
