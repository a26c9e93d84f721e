package assembly

import (
	"slices"
	"testing"

	"loaderd/internal/bufpool"
	"loaderd/loader/document"
)

// What a cache has lent stays as it is when the document is dropped, until it is given back; so does what others may
// have. All else is used again.
func TestMemoryIsUsedAgainWhenNobodyHasIt(t *testing.T) {
	const tokens = 1000
	for name, x := range map[string]struct {
		do    func(c *contentCache)
		again bool
	}{
		"nobody had it":           {func(*contentCache) {}, true},
		"it was given back":       {func(c *contentCache) { c.giveBack([]*cached{c.lend(1)}) }, true},
		"it is lent":              {func(c *contentCache) { c.lend(1) }, false},
		"it is lent to another":   {func(c *contentCache) { c.giveBack([]*cached{c.lend(1)}); c.lend(1) }, false},
		"somebody looked at it":   {func(c *contentCache) { c.peek(1) }, false},
		"it came in another time": {func(c *contentCache) { c.show(1, 2, wide(tokens).Narrowed()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContentCache(1, 4) // for one document
			c.show(1, 1, wide(tokens).Narrowed())
			content := c.held[1].content
			x.do(c)
			lost := c.held[1]
			c.show(2, 3, wide(tokens).Narrowed())
			if c.held[1] != nil {
				t.Fatal("the document is there")
			}
			used := false
			for range 100 { // with the race detector some of what is given back is left to the collector
				ids, _ := document.NarrowIDs.Get(tokens)
				used = used || &ids[0] == &content.Narrow[0]
			}
			if used && !x.again {
				t.Error("its memory is used again")
			}
			if !bufpool.Overwrites && !used && x.again {
				t.Error("its memory is not used again")
			}
			if whole := slices.Equal(content.Narrow, narrowed(tokens)); whole == (x.again && bufpool.Overwrites) {
				t.Errorf("its ids are as they were: %v", whole)
			}
			c.giveBack([]*cached{lost}) // too late
		})
	}
}

// What is put has others who may have it.
func TestMemoryOfWhatIsReadAgainIsLeftToTheCollector(t *testing.T) {
	c := newContentCache(1, 4)
	c.put(1, 0, wide(1000).Narrowed())
	content := c.held[1].content
	c.show(2, 1, wide(1000).Narrowed())
	for range 100 {
		if ids, _ := document.NarrowIDs.Get(1000); &ids[0] == &content.Narrow[0] {
			t.Fatal("its memory is used again")
		}
	}
}

// wide is a document of so many ids of 32 bits.
func wide(tokens int) (c document.Content) {
	for i := range tokens {
		c.Tokens = append(c.Tokens, int32(i))
	}
	return c
}

// narrowed are the same ids of 16 bits.
func narrowed(tokens int) (ids []uint16) {
	for i := range tokens {
		ids = append(ids, uint16(i))
	}
	return ids
}
