package assembly

import (
	"testing"
	"time"

	"loaderd/loader/planview"
)

// A document of a bulk read is shared if a batch waits for it.
func TestRefetcher_SharesContentOfAWaitingBatch(t *testing.T) {
	for _, waits := range []bool{false, true} {
		a := newRefetcher(new(planview.Streams), newContentCache(1<<20, 4), time.Minute)
		r := a.claimMany([]uint64{1}, func(uint64) uint64 { return 0 })
		waiting := make(chan struct{})
		if waits {
			go func() {
				defer close(waiting)
				if c, err := a.fetch(t.Context(), 1, 0); err != nil || c.Len() != 1000 {
					t.Errorf("a document with %d tokens, error %v", c.Len(), err)
				}
			}()
			for !isShared(a, 1) {
				time.Sleep(time.Millisecond)
			}
		} else {
			close(waiting)
		}
		a.claimMany([]uint64{1}, func(uint64) uint64 { return 0 }).abandon() // does not use the content
		r.finish(1, wide(1000).CloneNarrow())
		<-waiting
		if x := a.cache.entries[1]; x.reusable == waits {
			t.Errorf("a batch waits: %v, the memory may be reused: %v", waits, x.reusable)
		}
	}
}

func isShared(a *refetcher, sequence uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pendingReads[sequence].shared
}
