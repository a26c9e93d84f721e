package loader_test

import (
	"errors"
	"slices"
	"testing"

	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// The upcoming documents of a run's only stream start after the planned ones and end with the last stored one, or the
// seal.
func TestNextDocuments_OfOneStreamEndAtSealOrLast(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(1, 200)...)
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 2)
	next := run.Stats().Cursor + 1
	if got, err := run.NextDocuments(t.Context(), "", 3); err != nil || len(got) != 3 || got[0] < next {
		t.Errorf("%v follow document %d, %v", got, next-1, err)
	} else if got[1] != got[0]+1 || got[2] != got[0]+2 {
		t.Errorf("%v follow", got)
	}
	shown, err := run.ViewDocument(t.Context(), 7)
	must(t, err)
	if shown.Info.Path != "doc/7" || !slices.Equal(shown.Tokens, w.docs.docs[6].Tokens) || len(shown.Tokens) == 0 {
		t.Errorf("document 7 is shown as %+v", shown)
	}
	var refused *fault.Error
	if _, err := run.NextDocuments(t.Context(), "web", 1); !errors.As(err, &refused) ||
		refused.Reason != fault.InvalidTicket {
		t.Errorf("a source of a run without sources: %v", err)
	}
	_, err = run.Seal(t.Context())
	must(t, err)
	w.docs.lengths(3, 3, 3) // not part of the run
	read(t, run, state.RankID{World: 1}, 0, 0)
	if got, err := run.NextDocuments(t.Context(), "", 3); err != nil || len(got) != 0 {
		t.Errorf("%v follow the end, %v", got, err)
	}
	must(t, stop())
}

// nextSequences returns the sequence of the next document of each source.
func nextSequences(run *loader.Run) (next []uint64) {
	for _, s := range run.Stats().Sources {
		next = append(next, s.Next)
	}
	return next
}

// Upcoming returns the next document of each source, or the next ones of one source. Documents filtered out by a
// split are marked.
func TestNextDocuments_OfSourcesMarkSplits(t *testing.T) {
	c := mixedConfig()
	web := c.Sources["web"]
	web.Split = mixture.Split{Of: 2, Take: []int{1, 1}}
	c.Sources["web"] = web
	w, s := mixed(c, "code", "math", "web")
	fill(s)
	s["math"].sealed = true
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 1)
	var all, of []uint64
	eventually(t, func() bool { // the planner is idle
		before := nextSequences(run)
		var err, failed error
		all, err = run.NextDocuments(t.Context(), "", 5)
		of, failed = run.NextDocuments(t.Context(), "math", 4)
		must(t, errors.Join(err, failed))
		if !slices.Equal(before, nextSequences(run)) {
			return false
		}
		if len(all) != 3 || len(of) != 4 || of[0] != all[1] {
			t.Fatalf("%v follow, %v of math", all, of)
		}
		for i, ref := range all {
			if plan.RefSource(ref) != i || plan.RefSequence(ref) != before[i] {
				t.Fatalf("document %d of source %d follows, want %d of %d", plan.RefSequence(ref), plan.RefSource(ref),
					before[i], i)
			}
		}
		return true
	})
	shown, err := run.ViewDocument(t.Context(), of[0])
	must(t, err)
	if shown.Info.Source != "math" || shown.Info.Sequence != plan.RefSequence(of[0]) || shown.Skip != "" {
		t.Errorf("it is shown as %+v", shown)
	}
	for sequence := uint64(1); sequence < 20; sequence++ {
		shown, err := run.ViewDocument(t.Context(), plan.Ref(2, sequence))
		must(t, err)
		if taken := web.Split.Includes(shown.ID, sequence); taken != (shown.Skip == "") || !taken &&
			shown.Skip != plan.SkipSplit {
			t.Errorf("document %d of web, taken %t: it is skipped as %q", sequence, taken, shown.Skip)
		}
	}
	var refused *fault.Error
	if _, err := run.NextDocuments(t.Context(), "books", 1); !errors.As(err, &refused) ||
		refused.Reason != fault.InvalidTicket {
		t.Errorf("a source that the run has not: %v", err)
	}
	must(t, stop())
}
