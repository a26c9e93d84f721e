package daemoncmd

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
)

func TestStartHandler_LogsOnlyWarningsBeforeTheBanner(t *testing.T) {
	var out bytes.Buffer
	var started atomic.Bool
	log := slog.New(startHandler{slog.NewTextHandler(&out, nil), &started}).With("run", "x").WithGroup("g")
	log.Info("early")
	log.Warn("problem")
	started.Store(true)
	log.Info("late")
	log.Debug("detail")
	if lines := out.String(); strings.Count(lines, "\n") != 2 || !strings.Contains(lines, "msg=problem run=x") ||
		!strings.Contains(lines, "msg=late run=x") {
		t.Errorf("the log is %s", lines)
	}
}
