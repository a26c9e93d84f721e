package assembly

import (
	"slices"
	"testing"

	"loaderd/internal/bufpool"
	"loaderd/loader/document"
)

// Borrowed content stays unchanged after the document is evicted, until it is given back. So does content that others
// may share. All other memory is reused.
func TestContentCache_ReusesMemoryOfUnborrowedContent(t *testing.T) {
	const tokens = 1000
	for name, x := range map[string]struct {
		do    func(c *contentCache)
		again bool
	}{
		"nobody had it":           {func(*contentCache) {}, true},
		"it was given back":       {func(c *contentCache) { c.release([]*cacheEntry{c.acquire(1)}) }, true},
		"it is lent":              {func(c *contentCache) { c.acquire(1) }, false},
		"it is lent to another":   {func(c *contentCache) { c.release([]*cacheEntry{c.acquire(1)}); c.acquire(1) }, false},
		"somebody looked at it":   {func(c *contentCache) { c.peek(1) }, false},
		"it came in another time": {func(c *contentCache) { c.onDocument(1, 2, wide(tokens).CloneNarrow()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContentCache(1, 4) // has room for one document
			c.onDocument(1, 1, wide(tokens).CloneNarrow())
			content := c.entries[1].content
			x.do(c)
			lost := c.entries[1]
			c.onDocument(2, 3, wide(tokens).CloneNarrow())
			if c.entries[1] != nil {
				t.Fatal("the document is there")
			}
			used := false
			for range 100 { // with the race detector, a part of the released memory is not reused
				ids, _ := document.NarrowPool.Get(tokens)
				used = used || &ids[0] == &content.NarrowTokens[0]
			}
			if used && !x.again {
				t.Error("its memory is used again")
			}
			if !bufpool.OverwritesReturned && !used && x.again {
				t.Error("its memory is not used again")
			}
			if whole := slices.Equal(content.NarrowTokens, narrowed(tokens)); whole == (x.again && bufpool.OverwritesReturned) {
				t.Errorf("its ids are as they were: %v", whole)
			}
			c.release([]*cacheEntry{lost}) // after the eviction
		})
	}
}

// The memory of a document that was read again is reused, unless others share its content.
func TestContentCache_ReusesMemoryOfUnsharedPutContent(t *testing.T) {
	for _, shared := range []bool{false, true} {
		c := newContentCache(1, 4)
		c.put(1, 0, wide(1000).CloneNarrow(), shared)
		content := c.entries[1].content
		c.onDocument(2, 1, wide(1000).CloneNarrow())
		reused := false
		for range 100 { // with the race detector, a part of the released memory is not reused
			ids, _ := document.NarrowPool.Get(1000)
			reused = reused || &ids[0] == &content.NarrowTokens[0]
		}
		if shared && reused || !shared && !reused && !bufpool.OverwritesReturned {
			t.Errorf("shared: %v, its memory is reused: %v", shared, reused)
		}
	}
}

// wide returns a document with tokens 32-bit ids.
func wide(tokens int) (c document.Content) {
	for i := range tokens {
		c.Tokens = append(c.Tokens, int32(i))
	}
	return c
}

// narrowed returns the same ids as 16 bits.
func narrowed(tokens int) (ids []uint16) {
	for i := range tokens {
		ids = append(ids, uint16(i))
	}
	return ids
}
