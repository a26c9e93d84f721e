package assembly

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A list has the same order as a slice with the same operations, in both directions, and is independent of the other
// list.
func TestLRU_MatchesSliceModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]*cacheEntry, 12)
	for i := range all {
		all[i] = &cacheEntry{document: uint64(i)}
	}
	chains := [lruOrders]lru{byUse: {order: byUse}, byArrival: {order: byArrival}}
	var want [len(chains)][]*cacheEntry
	for range 2000 {
		k, x := r.IntN(len(chains)), all[r.IntN(len(all))]
		c := &chains[k]
		if i := slices.Index(want[k], x); i >= 0 {
			c.remove(x)
			want[k] = slices.Delete(want[k], i, i+1)
		} else if r.IntN(2) == 0 {
			c.pushFront(x)
			want[k] = slices.Insert(want[k], 0, x)
		} else {
			c.pushBack(x)
			want[k] = append(want[k], x)
		}
		for k, c := range chains {
			var forward, backward []*cacheEntry
			for x := c.first; x != nil; x = x.links[k].next {
				forward = append(forward, x)
			}
			for x := c.last; x != nil; x = x.links[k].prev {
				backward = append(backward, x)
			}
			slices.Reverse(backward)
			if !slices.Equal(forward, want[k]) || !slices.Equal(backward, want[k]) {
				t.Fatalf("chain %d has %d documents forward and %d backward, want %d, or in another order", k, len(forward),
					len(backward), len(want[k]))
			}
		}
	}
}

// Using a document makes it the most recent of its class, and the least recently used one is evicted first.
func TestContentCache_EvictsLeastRecentlyUsedFirst(t *testing.T) {
	cost := (&cacheEntry{content: contentOf(100)}).cost()
	c := newContentCache(3*cost, 4)
	for d := uint64(1); d <= 3; d++ {
		c.onDocument(d, d, contentOf(100))
	}
	c.acquire(1)
	c.acquire(3)
	c.acquire(3)
	c.onDocument(4, 4, contentOf(100))
	c.onDocument(5, 5, contentOf(100))
	for d, kept := range map[uint64]bool{1: false, 2: false, 3: true, 4: true, 5: true} {
		if _, ok := c.peek(d); ok != kept {
			t.Errorf("document %d is kept: %v", d, ok)
		}
	}
	c.acquire(3)
	c.onDocument(6, 6, contentOf(100))
	if _, ok := c.peek(3); !ok {
		t.Error("the document that was used last is gone")
	}
}
