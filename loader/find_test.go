package loader_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"loaderd/loader/backend"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// countedLog counts the records that are read.
type countedLog struct {
	*memLog
	got int
}

func (l *countedLog) Scan(ctx context.Context, from uint64, f func(uint64, []byte) error) error {
	l.got += len(l.records)
	return l.memLog.Scan(ctx, from, f)
}

func (l *countedLog) Get(ctx context.Context, at uint64) ([]byte, error) {
	l.got++
	return l.memLog.Get(ctx, at)
}

// rowsOf returns the rows of every document of a plan, from all its steps.
func rowsOf(t *testing.T, l *memLog) (rows map[uint64][]string, steps int) {
	t.Helper()
	rows = map[uint64][]string{}
	var j planrecord.StepJoiner
	for _, b := range l.records {
		e, err := planrecord.Decode(b)
		must(t, err)
		if _, is := e.(planrecord.StepPart); !is {
			continue
		}
		s, err := j.Add(e)
		must(t, err)
		if s == nil {
			continue
		}
		steps++
		for i, row := range s.Rows {
			pieces := map[uint64][]packonline.Piece{}
			for _, p := range row {
				pieces[p.Doc] = append(pieces[p.Doc], p)
			}
			for document, p := range pieces {
				rows[document] = append(rows[document], fmt.Sprint(s.Index, i, p))
			}
		}
	}
	return rows, steps
}

// found returns the rows that Find finds.
func found(t *testing.T, log backend.PlanLog, document uint64) (rows []string) {
	t.Helper()
	err := maintenance.FindRows(t.Context(), log, document, func(s *plan.Step, row int, pieces []packonline.Piece) error {
		rows = append(rows, fmt.Sprint(s.Index, row, pieces))
		return nil
	})
	must(t, err)
	return rows
}

// Find returns the same rows of each document as a scan of the whole plan. The sources are read in order or shuffled,
// once, several times or forever, and from the start or added later. Unused and missing documents are included.
func TestFind_OfSeveralSourcesMatchesPlanScan(t *testing.T) {
	c := config("bfd")
	c.Mix.OnDry = mixture.DryWait
	c.Sources = map[string]mixture.Source{
		"live":   {Weight: 5, Epochs: 1, Block: 2},
		"sealed": {Weight: 2, Epochs: 1, Block: 2},
		"again":  {Weight: 2, Epochs: 3, Block: 2, MinTokens: 6},
		"plain":  {Weight: 2, Epochs: 2},
		"open":   {Weight: 1, Epochs: 2, Block: 2}, // never sealed
		"tiny":   {Weight: 1, Epochs: mixture.Forever, Block: 2},
	}
	w, s := mixed(c, "live", "sealed", "again", "plain", "tiny", "open", "later")
	w.options.Ahead, w.options.CheckpointSteps = 1, 0
	for name, n := range map[string]int{"live": 6000, "sealed": 900, "again": 200, "plain": 400, "tiny": 5, "open": 2000,
		"later": 40} {
		s[name].lengths(someLengths(uint64(n), n)...)
	}
	s["sealed"].sealed, s["open"].first = true, 21
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 1)
	_, err := run.SealSource(t.Context(), "tiny", "")
	must(t, err)
	read(t, run, state.RankID{World: 1}, 1, 29)
	weights := map[string]float64{"live": 5, "sealed": 2, "again": 2, "plain": 2, "tiny": 1, "open": 1, "later": 1}
	_, err = changeMix(t, run, mixture.Change{Weights: weights,
		Add: map[string]mixture.Source{"later": {Weight: 1, Epochs: 4, Block: 3}}}, "")
	must(t, err)
	read(t, run, state.RankID{World: 1}, 30, 7)
	for _, name := range []string{"again", "plain", "later"} {
		_, err := run.SealSource(t.Context(), name, "")
		must(t, err)
	}
	read(t, run, state.RankID{World: 1}, 37, 900)
	must(t, stop())

	want, steps := rowsOf(t, w.plan)
	several := 0
	for i, info := range run.Info().Sources {
		for sequence := uint64(1); sequence <= uint64(len(s[info.Name].docs))+2; sequence++ {
			if (info.Name == "live" || info.Name == "open") && sequence%7 > 0 {
				continue // only a sample of a long source
			}
			document := plan.Ref(i, sequence)
			if have := found(t, w.plan, document); !slices.Equal(have, want[document]) {
				t.Fatalf("document %d of %s: %v, want %v", sequence, info.Name, have, want[document])
			}
			if len(want[document]) > 2 {
				several++
			}
		}
	}
	if several < 100 || steps < 900 {
		t.Errorf("%d documents occurred several times in %d steps: too few for a test", several, steps)
	}
	for _, document := range []uint64{plan.Ref(0, 1<<40), plan.Ref(7, 1), plan.Ref(1000, 1)} {
		if have := found(t, w.plan, document); have != nil {
			t.Errorf("document %x: %v", document, have)
		}
	}
	// the bound is a window plus the reads of a binary search in the records of source positions
	for name, most := range map[string]int{"live": 350, "sealed": 350} {
		i := slices.IndexFunc(run.Info().Sources, func(x plan.SourceInfo) bool { return x.Name == name })
		log := &countedLog{memLog: w.plan}
		if rows := found(t, log, plan.Ref(i, 500)); len(rows) == 0 || log.got > most {
			t.Errorf("%d records are read for a document of %s in %d steps, which has %d rows", log.got, name, steps, len(rows))
		}
	}
}

// Find returns the errors of its callback and of a damaged plan.
func TestFind_ReturnsErrorsOfCallbackAndPlan(t *testing.T) {
	w, s := mixed(mixedConfig(), "code", "math", "web")
	fill(s)
	run, stop := w.start(t)
	_, err := run.Seal(t.Context())
	must(t, err)
	read(t, run, state.RankID{World: 1}, 0, 0)
	must(t, stop())
	none := func(*plan.Step, int, []packonline.Piece) error { return nil }
	if err := maintenance.FindRows(t.Context(), w.plan, plan.Ref(2, 3), func(*plan.Step, int, []packonline.Piece) error {
		return context.Canceled
	}); err == nil {
		t.Error("an error of the caller is lost")
	}
	w.plan.records[4] = []byte("LP??????????")
	if err := maintenance.FindRows(t.Context(), w.plan, plan.Ref(2, 3), none); err == nil {
		t.Error("a damaged plan is searched")
	}
}
