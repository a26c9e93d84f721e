package planview_test

import (
	"context"
	"strings"
	"testing"

	"loaderd/loader/backend"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// log is a plan log whose last records a reader does not see yet.
type log struct {
	backend.PlanLog
	records [][]byte
	visible int
}

func (l *log) Scan(_ context.Context, from uint64, f func(position uint64, record []byte) error) error {
	for at := from; at <= uint64(l.visible); at++ {
		if err := f(at, l.records[at-1]); err != nil {
			return err
		}
	}
	return nil
}

// splitStep encodes a step as two or more records.
func splitStep(t *testing.T, s *plan.Step) [][]byte {
	t.Helper()
	for limit := 1; ; limit++ {
		if records, err := planrecord.EncodeStep(s, limit); err == nil {
			if len(records) < 2 {
				t.Fatalf("step %d has one record of %d bytes", s.Index, limit)
			}
			return records
		}
	}
}

// TestView_LeaderFollowsWithinAStep lets the leading process read a part of a step from the log, as a reader that joins
// does, before its own write of the step is applied.
func TestView_LeaderFollowsWithinAStep(t *testing.T) {
	c := plantest.Config("concat")
	h := plantest.Header(c)
	h.ID, h.Algorithm, h.Fingerprint = strings.Repeat("1a", 16), planner.AlgorithmVersion, c.Fingerprint()
	a, err := planner.NewApplier(h)
	if err != nil {
		t.Fatal(err)
	}
	var steps []plan.Step
	for i := uint64(1); len(steps) < 2; i++ {
		ready, err := a.AddDocument(plan.Arrival{Sequence: i, Length: 10, ID: i})
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, ready.Steps...)
	}
	l := &log{records: [][]byte{planrecord.Encode(h), planrecord.Encode(planrecord.Term{Daemon: "a"})}}
	v := planview.New(l, c, backend.Options{Ahead: 4})
	for i := range steps[:2] {
		after := uint64(len(l.records))
		records := splitStep(t, &steps[i])
		l.records = append(l.records, records...)
		l.visible = int(after) + 1
		if err := v.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		v.AddStep(&steps[i])
		if err := v.ApplyWrite(after, records, &steps[i]); err != nil {
			t.Fatal(err)
		}
		l.visible = len(l.records)
		if err := v.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v.Position() != uint64(l.visible) || v.PlannedSteps() != uint64(i+1) {
			t.Errorf("position %d of %d, %d steps", v.Position(), l.visible, v.PlannedSteps())
		}
	}
}
