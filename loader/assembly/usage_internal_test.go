package assembly

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// contentOf returns the content of a document of n tokens.
func contentOf(n int) document.Content { return document.Content{Tokens: make([]int32, n)} }

// stepOf returns a step with one row per piece. Later steps need no document up to lowWatermark.
func stepOf(index, lowWatermark uint64, pieces ...packonline.Piece) *plan.Step {
	s := &plan.Step{Index: index, LowWatermark: plan.PositionAfter(lowWatermark)}
	for _, p := range pieces {
		s.Rows = append(s.Rows, []packonline.Piece{p})
	}
	return s
}

func piece(document uint64, start, length int32) packonline.Piece {
	return packonline.Piece{Doc: document, Start: start, Length: length}
}

// Unneeded documents use little of the cache, are evicted first, and count as needed when a reader needs them again.
func TestContentCache_EvictsUnneededFirst(t *testing.T) {
	const size = 100
	const most = unneededShare + 1 // documents in the cache
	cost := (&cacheEntry{content: contentOf(size)}).cost()
	for _, x := range []struct {
		name string
		do   func(c *contentCache) // document 1 has arrived, and the first step uses it
		kept bool                  // whether document 1, the oldest, is kept when another one must be evicted
	}{
		{"a reader may ask for it", func(c *contentCache) { c.setNeeded(0) }, true},
		{"all readers have passed it", func(c *contentCache) { c.setNeeded(0); c.setNeeded(1) }, false},
		{"a reader begins before it again", func(c *contentCache) { c.setNeeded(1); c.setNeeded(0); c.touch(1, 0) }, true},
		{"a reader begins before it again and passes it again", func(c *contentCache) {
			c.setNeeded(1)
			c.setNeeded(0)
			c.touch(1, 0)
			c.setNeeded(1)
		}, false},
		{"a later step needs it too", func(c *contentCache) { c.touch(1, 5); c.setNeeded(5) }, true},
		{"it comes in another epoch", func(c *contentCache) { c.setNeeded(1); c.onDocument(1, 99, contentOf(size)) }, true},
		{"no reader has arrived, and it is new", func(*contentCache) {}, true},
		{"no reader is there, and steps go on", func(c *contentCache) {
			c.setNeeded(1)
			c.setNeeded(state.NoStep)
			c.onStep(stepOf(9, 0))
		}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newContentCache(most*cost, 4)
			c.onDocument(1, 1, contentOf(size))
			c.onStep(stepOf(0, 0, piece(1, 0, size)))
			for d := uint64(2); d <= most; d++ { // documents that no step has used are needed
				c.onDocument(d, d, contentOf(size))
				c.acquire(1) // document 1 stays the most recently used
			}
			x.do(c)
			c.acquire(1)
			c.onDocument(most+1, most+1, contentOf(size))
			if _, kept := c.peek(1); kept != x.kept {
				t.Errorf("document 1 is kept: %v", kept)
			}
			if bytes, _, _ := c.stats(); bytes > most*cost {
				t.Errorf("%d bytes of %d", bytes, most*cost)
			}
		})
	}
}

// A document is waiting until steps have used all of it. A part is not enough, and repeated tokens do not count.
// Documents below the low watermark are not waiting.
func TestContentCache_DocumentWaitsForAllItsTokens(t *testing.T) {
	repeated := stepOf(1, 0, piece(1, 40, 60)) // 20 of the tokens were in the step before
	repeated.Repeats = []plan.Repeat{{Row: 0, Piece: 0, Tokens: 20}}
	for _, x := range []struct {
		name  string
		steps []*plan.Step
		spent bool
	}{
		{"half of it", []*plan.Step{stepOf(0, 0, piece(1, 0, 50))}, false},
		{"two halves", []*plan.Step{stepOf(0, 0, piece(1, 0, 50)), stepOf(1, 0, piece(1, 50, 50))}, true},
		{"a part with repeated tokens", []*plan.Step{stepOf(0, 0, piece(1, 0, 50)), repeated}, false},
		{"half of it, and the rest is dropped", []*plan.Step{stepOf(0, 0, piece(1, 0, 50)), stepOf(1, 1)}, true},
		{"none of it, for it is a duplicate", []*plan.Step{stepOf(0, 1)}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newContentCache(1<<20, 4)
			c.onDocument(1, 1, contentOf(100))
			for _, s := range x.steps {
				c.onStep(s)
			}
			c.setNeeded(7)
			if spent := c.entries[1].class == &c.unneeded; spent != x.spent {
				t.Errorf("it is spent: %v", spent)
			}
		})
	}
}

// held reports whether a cache has the documents of all pieces.
func held(c *contentCache, pieces []packonline.Piece) bool {
	return !slices.ContainsFunc(pieces, func(p packonline.Piece) bool { return c.entries[p.Doc] == nil })
}

// For random arrivals, steps and reader positions, no needed document is evicted while an unneeded one is cached, and
// the sums are correct.
func TestContentCache_NeverEvictsNeededBeforeUnneeded(t *testing.T) {
	const recent, limit = 4, 20_000
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newContentCache(limit, recent)
		waiting := map[uint64]int32{} // tokens that no step has used
		last := map[uint64]uint64{}   // the last step that needs a document
		var documents, steps, reads uint64
		// of has the pieces of each step; short reports whether a needed document was evicted
		of, short := map[uint64][]packonline.Piece{}, false
		needed := func(d uint64) bool { return waiting[d] > 0 || last[d] >= reads }
		check := func(newest uint64, before map[uint64]*cacheEntry) {
			t.Helper()
			for d := range before {
				if c.entries[d] != nil || !needed(d) {
					continue
				}
				short = true
				for other := range c.entries {
					if other != newest && !needed(other) {
						t.Fatalf("seed %d: document %d went, though document %d is not needed", seed, d, other)
					}
				}
			}
			var bytes int64
			for d, x := range c.entries {
				bytes += x.cost()
				if spent := x.class == &c.unneeded; spent == needed(d) {
					t.Fatalf("seed %d: document %d is spent: %v", seed, d, spent)
				}
			}
			for step := range steps {
				if _, whole := c.cachedStepBytes(step); whole && (step < reads || !held(c, of[step])) {
					t.Fatalf("seed %d: step %d of which readers ask from %d on passes for whole, of documents %v", seed, step,
						reads, of[step])
				} else if !whole && step >= reads && !short {
					t.Fatalf("seed %d: step %d does not pass for whole, and nothing that is needed has gone", seed, step)
				}
			}
			if sum, _, _ := c.stats(); sum != bytes || bytes > limit && len(c.entries) > 1 {
				t.Fatalf("seed %d: %d bytes are counted of %d", seed, sum, bytes)
			}
		}
		c.setNeeded(0)
		for range 300 {
			before := map[uint64]*cacheEntry{}
			maps.Copy(before, c.entries)
			newest := uint64(0)
			switch r.IntN(4) {
			case 0, 1:
				documents++
				n := 1 + r.Int32N(500)
				newest, waiting[documents] = documents, n
				c.onDocument(documents, documents, contentOf(int(n)))
			case 2:
				var pieces []packonline.Piece
				for d, n := range waiting {
					if take := min(n, 1+r.Int32N(400)); c.entries[d] != nil && n > 0 && r.IntN(2) == 0 {
						pieces = append(pieces, piece(d, 0, take))
						waiting[d] -= take
						last[d] = steps
					}
				}
				of[steps] = pieces
				c.onStep(stepOf(steps, 0, pieces...))
				steps++
			case 3:
				reads = min(reads+r.Uint64N(3), steps)
				c.setNeeded(reads)
			}
			check(newest, before)
		}
	}
}
