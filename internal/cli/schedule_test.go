package cli

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"loaderd/internal/api"
)

// A daemon reports the phase of the next step and the next change in its status, as text, and as metrics.
func TestSchedule_IsReported(t *testing.T) {
	s := newSite(t)
	s.serve("--set", "steps.schedule=[{from_step: 2, rows: 8}, {from_step: 1000, rows: 16, buckets: [64]}]",
		"--set", "http.insecure=true")
	status, _ := s.untilStatus(func(s api.Status) bool { return s.Schedule != nil })
	if x := status.Schedule; x.Phase != 0 || x.Rows[0] != 4 || x.NextChange == nil || x.NextChange.Steps != 2 ||
		x.NextChange.Rows[0] != 8 || len(x.Phases) != 3 {
		t.Errorf("before the first step the schedule is %+v", x)
	}
	s.publishTexts(80)
	s.does("seal")
	steps := len(s.read())
	if steps < 3 {
		t.Fatalf("%d steps", steps)
	}
	status, _ = s.untilStatus(func(s api.Status) bool { return s.Ended && s.Schedule.Phase == 1 })
	if x := status.Schedule; x.Steps != uint64(steps) || x.NextChange.Steps != int64(1000-steps) ||
		*x.Phases[1].FirstStep != 2 {
		t.Errorf("after %d steps the schedule is %+v", steps, x)
	}
	if text := s.does("status"); !strings.Contains(text, "8 rows of 128 tokens, phase 1 of 2; 16 rows of 64 tokens in ") {
		t.Errorf("output of status: %s", text)
	}
	r, err := http.Get(status.Daemons[0].HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`schedule_phase{.*} 1`, `schedule_phases{.*} 3`, `schedule_change_steps{.*} 9\d\d`,
		`schedule_change_tokens{.*} 0`, `bucket_step_rows{bucket="128".*} 8`} {
		if !regexp.MustCompile("(?m)^loaderd_" + want + "$").Match(text) {
			t.Errorf("no metric %s in %s", want, text)
		}
	}
}
