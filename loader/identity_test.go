package loader_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// A run refuses a document stream other than its own. The plan's references would name other documents, possibly of
// equal lengths.
func TestOpen_RefusesAnotherDocumentStream(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(1, 100)...)
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 8)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	was := w.docs.stream
	for what, other := range map[string]plan.Stream{
		"created again": {Name: was.Name, Created: was.Created.Add(time.Hour)},
		"renamed":       {Name: "NEWS", Created: was.Created},
	} {
		w.docs.stream = other
		if _, err := w.open(t); reason(err) != fault.StreamMismatch || !strings.Contains(err.Error(), was.String()) ||
			!strings.Contains(err.Error(), other.String()) {
			t.Errorf("%s: Open = %v", what, err)
		}
		if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
			w.config.Tokenizer, nil); reason(err) != fault.StreamMismatch {
			t.Errorf("%s: Audit = %v", what, err)
		}
		if _, _, err := w.fork(t, 4, "next", w.config); reason(err) != fault.StreamMismatch {
			t.Errorf("%s: Fork = %v", what, err)
		}
	}
	w.docs.stream = was
	h, _, err := w.fork(t, 4, "next", w.config)
	if err != nil || !h.Sources[0].Stream.Equal(was) {
		t.Errorf("the fork is made of %v: %v", h.Sources, err)
	}
	if _, err := w.open(t); err != nil {
		t.Error(err)
	}
}

// An audit requires the run's tokenizer, because another one may produce as many tokens.
func TestAudit_RequiresTokenizerOfRun(t *testing.T) {
	w, _ := audited(t, "bfd")
	other := w.config.Tokenizer
	other.Fingerprint = "g"
	if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
		other, nil); reason(err) != fault.PlanMismatch || !strings.Contains(err.Error(), "tokenizer") {
		t.Errorf("Audit = %v", err)
	}
}

// If the run's stream is replaced, the run ends, and a waiting reader gets the cause.
func TestDocumentStream_ReplacementEndsRun(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(someLengths(1, 10)...)
	run, stop := w.start(t)
	r, err := run.Join(state.RankID{World: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.docs.mu.Lock()
	w.docs.stream.Created = w.docs.stream.Created.Add(time.Nanosecond)
	w.docs.mu.Unlock()
	for err == nil {
		_, err = r.Next(t.Context())
	}
	if reason(err) != fault.StreamMismatch {
		t.Errorf("the reader got %v", err)
	}
	if err := stop(); reason(err) != fault.StreamMismatch {
		t.Errorf("Serve = %v", err)
	}
}

// A problem of the stream is reported as long as it persists, and the run continues.
func TestDocumentStream_ProblemIsReportedWhileItLasts(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(someLengths(1, 200)...)
	run, _ := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 20)
	set := func(f func()) {
		w.docs.mu.Lock()
		defer w.docs.mu.Unlock()
		f()
	}
	told := func(parts ...string) {
		t.Helper()
		eventually(t, func() bool {
			s := run.Stats().StreamProblem
			for _, part := range parts {
				if !strings.Contains(s, part) {
					return false
				}
			}
			return (len(parts) == 0) == (s == "")
		})
	}
	told()
	set(func() { w.docs.trouble = errors.New("discard is old") })
	told("discard is old")
	set(func() { w.docs.trouble = nil })
	told()
	if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 4); err != nil {
		t.Fatal(err)
	}
	set(func() { w.docs.first = 60 })
	told("documents before 60", "resume from step")
	if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 18); err != nil { // no reader needs them now
		t.Fatal(err)
	}
	told()
	read(t, run, state.RankID{World: 1}, 20, 2)
}
