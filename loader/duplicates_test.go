package loader_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
)

// Dropped documents are told of in the log: a moment after the first, then at growing intervals, and not again after a restart.
func TestDuplicatesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Documents.Dedupe = 1000
		w, log := newWorld(c), &lines{words: "documents are dropped"}
		w.edges = func(e *loader.Edges) { e.Log = slog.New(log) }
		pass := func(n int) {
			for id := range n {
				w.docs.publish(loader.Document{ID: uint64(id + 1), Content: loader.Content{Tokens: make([]int32, 3)}})
			}
		}
		told := func(when string, want ...string) {
			t.Helper()
			got := log.take()
			if len(got) != len(want) {
				t.Fatalf("%s: the log says %q, want %q", when, got, want)
			}
			for i := range want {
				for part := range strings.SplitSeq(want[i], ", ") {
					if !strings.Contains(got[i], part) {
						t.Errorf("%s: the log says %q, without %q", when, got[i], part)
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
		told("in the second pass", "dropped=100 since_last_said=100 last_dropped_document=200, ids of their own")
		if n := run.Stats().Duplicates; n != 100 {
			t.Errorf("%d duplicates are counted", n)
		}
		for range 60 {
			pass(1)
			time.Sleep(time.Second)
		}
		told("one a second for a minute", "dropped=102", "dropped=122")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		_, stop = w.start(t)
		time.Sleep(time.Hour)
		told("after a restart")
		pass(1)
		time.Sleep(10 * time.Second)
		told("one more after it", "dropped=161 since_last_said=1 ")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
