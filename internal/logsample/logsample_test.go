package logsample_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"loaderd/internal/logsample"
)

func TestSampler_BoundsLinesOfOneKind(t *testing.T) {
	var out bytes.Buffer
	s, log := logsample.New(), slog.New(slog.NewTextHandler(&out, nil))
	for range 1000 {
		s.Log(log, slog.LevelInfo, "handshake failed", "address", "somewhere")
	}
	s.Log(log, slog.LevelInfo, "another kind")
	if n := strings.Count(out.String(), "handshake failed"); n < 20 || n > 30 {
		t.Errorf("%d of 1,000 lines are logged", n)
	}
	if !strings.Contains(out.String(), "another kind") {
		t.Error("a line of another kind is omitted")
	}
}
