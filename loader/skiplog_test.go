package loader_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
)

// Duplicates are logged shortly after the first one, then at growing intervals, and not again after a restart.
func TestSkipLog_Duplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Documents.Dedupe = 1000
		w, log := newFixture(c), &lines{words: "documents skipped"}
		w.edges = func(e *backend.Backends) { e.Log = slog.New(log) }
		pass := func(n int) {
			for id := range n {
				w.docs.publish(document.Document{ID: uint64(id + 1), Content: document.Content{Tokens: make([]int32, 3)}})
			}
		}
		told := func(when string, want ...string) {
			t.Helper()
			got := log.take()
			if len(got) != len(want) {
				t.Fatalf("%s: the log is %q, want %q", when, got, want)
			}
			for i := range want {
				for part := range strings.SplitSeq(want[i], ", ") {
					if !strings.Contains(got[i], part) {
						t.Errorf("%s: the log is %q, without %q", when, got[i], part)
					}
				}
			}
		}
		w.options.Ahead = 1000
		run, stop := w.start(t)
		pass(100)
		time.Sleep(time.Minute)
		told("without duplicates")
		pass(100)
		time.Sleep(10 * time.Second)
		told("in the second pass", "event=documents.skipped reason=duplicate, skipped=100 since_last_logged=100 "+
			"last_document=200, with other ids")
		if n := run.Stats().Skipped.Count(plan.SkipDuplicate); n != 100 {
			t.Errorf("%d duplicates are counted", n)
		}
		for range 60 {
			pass(1)
			time.Sleep(time.Second)
		}
		told("one a second for a minute", "skipped=102", "skipped=122")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		_, stop = w.start(t)
		time.Sleep(time.Hour)
		told("after a restart")
		pass(1)
		time.Sleep(10 * time.Second)
		told("one more after it", "skipped=161 since_last_logged=1 ")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// Each reason is logged in a separate line before the run ends. The verdict of a run without steps names the reasons.
func TestSkipLog_EndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := newFixture(config("concat")), &lines{words: "documents skipped"}
		w.edges = func(e *backend.Backends) { e.Log = slog.New(log) }
		run, stop := w.start(t)
		for range 20 {
			w.docs.publish(document.Document{Skip: plan.SkipMasked})
		}
		w.docs.publish(document.Document{Skip: plan.SkipEmpty})
		if _, err := run.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := log.take(); len(got) != 2 || !strings.Contains(got[0], "reason=empty") ||
			!strings.Contains(got[1], "reason=masked") ||
			!strings.Contains(got[1], "skipped=20 since_last_logged=20 last_document=20") {
			t.Errorf("the log has %q", got)
		}
		want := "skipped 21 of 21 documents: 1 without text or tokens, 20 without a token that has a loss"
		if v := run.Verdict(); v.Sentence != "Ended at step 0" || v.Detail != want {
			t.Errorf("the verdict is %+v, want the detail %q", v, want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
