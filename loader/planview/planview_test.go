package planview_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"loaderd/loader/backend"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/packonline"
)

// log is a plan log whose last records a reader does not see yet.
type log struct {
	backend.PlanLog
	records  [][]byte
	visible  int
	requests int // calls of Last and Get
}

func (l *log) Scan(_ context.Context, from uint64, f func(position uint64, record []byte) error) error {
	for at := from; at <= uint64(l.visible); at++ {
		if err := f(at, l.records[at-1]); err != nil {
			return err
		}
	}
	return nil
}

func (l *log) Last(context.Context) (uint64, error) {
	l.requests++
	return uint64(l.visible), nil
}

func (l *log) Get(_ context.Context, position uint64) ([]byte, error) {
	l.requests++
	if position < 1 || position > uint64(l.visible) {
		return nil, errors.New("no such record")
	}
	return l.records[position-1], nil
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

// Readers at different places that read forward request each record at most once.
func TestReader_StepsForwardNeedOneRequestPerRecord(t *testing.T) {
	l := &log{records: [][]byte{nil, nil}} // the header and a term, which are not read
	const steps = 60
	for i := range uint64(steps) {
		if i%7 == 3 {
			l.records = append(l.records, planrecord.Encode(planrecord.Term{Daemon: "a"}))
		}
		s := &plan.Step{Index: i, Bucket: 64, Cursor: plan.PositionAfter(4 * (i + 1))}
		if i%plan.SourcePositionInterval == 0 {
			s.SourcePositions = []mixture.SourcePosition{{}}
		}
		for row := range uint64(4) {
			s.Rows = append(s.Rows, []packonline.Piece{{Doc: 4*i + row + 1, Length: 64}})
		}
		l.records = append(l.records, splitStep(t, s)...)
	}
	l.visible = len(l.records)
	r := planview.Reader{Log: l}
	read := func(from, to uint64) (requests int) {
		for i := from; i < to; i++ {
			l.requests = 0
			s, err := r.Step(t.Context(), i)
			if err != nil || s.Index != i || len(s.Rows) != 4 {
				t.Fatalf("step %d: %v, %v", i, s, err)
			}
			requests += l.requests
		}
		return requests
	}
	read(0, 1)
	read(steps/2, steps/2+1)
	requests := 0
	for i := range uint64(steps/2 - 1) {
		requests += read(1+i, 2+i) + read(steps/2+1+i, steps/2+2+i)
	}
	if want := len(l.records); requests > want {
		t.Errorf("%d requests for %d records", requests, want)
	}
	if _, err := r.Step(t.Context(), steps); !errors.Is(err, planview.ErrNoStep) {
		t.Errorf("the step after the last one: %v", err)
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
