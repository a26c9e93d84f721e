package loader_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// audited returns a fixture with a run that was flushed, restarted and sealed, and the run's batches.
func audited(t *testing.T, method string) (*fixture, []*assembly.Batch) {
	w := newFixture(config(method))
	w.docs.lengths(someLengths(5, 150)...)
	run, stop := w.start(t)
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	read(t, run, state.RankID{World: 1}, 0, 5)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	run, stop = w.start(t)
	w.docs.lengths(someLengths(6, 150)...)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	batches := read(t, run, state.RankID{World: 1}, 0, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return w, batches
}

func TestAudit_AcceptsEveryPackingMethod(t *testing.T) {
	for _, method := range methods {
		w, batches := audited(t, method)
		have, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
			w.config.Tokenizer, nil)
		if err != nil || have.Steps != uint64(len(batches)) || have.Planned != have.Steps || have.Documents != 300 ||
			!have.Ended || have.Waiting != 0 {
			t.Errorf("%s: %+v, %v", method, have, err)
		}
	}
}

// An audit detects documents that differ from the planned ones, and a damaged plan.
func TestAudit_DetectsChangedDocumentsAndDamagedPlan(t *testing.T) {
	w, _ := audited(t, "bfd")
	w.docs.mu.Lock()
	was := w.docs.docs[120].Tokens
	w.docs.docs[120].Tokens = was[:len(was)-1]
	w.docs.mu.Unlock()
	if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
		w.config.Tokenizer, nil); reason(err) != fault.PlanMismatch {
		t.Errorf("a document changed: %v", err)
	}
	w.docs.docs[120].Tokens = was
	whole := w.docs.docs
	w.docs.docs = whole[:290]
	if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
		w.config.Tokenizer, nil); reason(err) != fault.DocumentLost {
		t.Errorf("documents are missing at the end: %v", err)
	}
	w.docs.docs = whole
	w.plan.mu.Lock()
	w.plan.records[4][9] ^= 1
	w.plan.mu.Unlock()
	if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
		w.config.Tokenizer, nil); err == nil {
		t.Error("a damaged record was not found")
	}
}

// An audit ends without an error where a flush is pending at the end of the log. The flush was recorded after
// documents of a source whose weight is now 0. The only source with a weight has no documents.
func TestAudit_EndsWhereAFlushWaits(t *testing.T) {
	bubble(t, "flush", func(t *testing.T) {
		c := config("bfd")
		c.Sources = sources(map[string]float64{"code": 1})
		c.Mix.OnDry, c.Mix.DryAfter = mixture.DryShare, time.Second
		w, s := mixed(c, "code", "web")
		s["code"].lengths(someLengths(8, 400)...)
		w.options.Ahead = 1
		run, stop := w.start(t)
		_, err := run.Flush(t.Context())
		must(t, err)
		_, err = changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 0, "web": 1},
			Add: sources(map[string]float64{"web": 1})}, "")
		must(t, err)
		if o := readAll(t, run, 0); reason(o.err) != fault.SourceDry {
			t.Fatal(o.err)
		}
		if !run.Stats().Sources[1].Paused {
			t.Fatal("the source without documents does not rest")
		}
		planned := run.Info().Planned
		must(t, stop())
		seen, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer, nil)
		if err != nil || seen.Steps != planned || seen.Ended {
			t.Errorf("the audit of %d steps: %+v, %v", planned, seen, err)
		}
	})
}

// Find returns every row that holds a part of a document.
func TestFind_ReturnsEveryRowOfDocument(t *testing.T) {
	w, batches := audited(t, "concat")
	for document := uint64(1); document <= 300; document++ {
		var want, have []string
		for _, b := range batches {
			for i, row := range b.Pieces {
				pieces := slices.Collect(func(yield func(packonline.Piece) bool) {
					for _, x := range row {
						if x.Doc == document && !yield(x) {
							return
						}
					}
				})
				if len(pieces) > 0 {
					want = append(want, fmt.Sprint(b.Step, i, pieces))
				}
			}
		}
		err := maintenance.FindRows(t.Context(), w.plan, document,
			func(s *plan.Step, row int, pieces []packonline.Piece) error {
				have = append(have, fmt.Sprint(s.Index, row, pieces))
				return nil
			})
		if err != nil || !slices.Equal(have, want) {
			t.Fatalf("document %d: %v, %v, want %v", document, have, err, want)
		}
	}
}
