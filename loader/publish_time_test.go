package loader_test

import (
	"slices"
	"testing"

	"loaderd/loader/document"
	"loaderd/loader/state"
)

// Each document's time is sent once to the ranks of a job, in the batch with the document's first token. It does not
// matter whether the document is cached or read again, or how it was cut.
func TestBatch_HasPublishTimeWithFirstToken(t *testing.T) {
	for name, cache := range map[string]int64{"cached": 64 << 20, "read again": 1} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(config("concat"))
			w.options.CacheBytes = cache
			var want []int64
			for i, n := range someLengths(4, 100) {
				d := document.Document{Content: document.Content{Tokens: documentTokens(uint64(i+1), n)}}
				if i%10 > 0 { // every tenth document has no time
					d.Stored = int64(1000 + i)
					want = append(want, d.Stored)
				}
				w.docs.publish(d)
			}
			run, _ := w.start(t)
			if _, err := run.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []int64
			for rank := range 2 {
				for _, b := range read(t, run, state.RankID{Rank: rank, World: 2, Job: []string{"one", "other"}[rank]}, 0, 0) {
					got = append(got, b.StoreTimes...)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("the times of %d documents arrived, want %d:\n%v\n%v", len(got), len(want), got, want)
			}
		})
	}
}
