package loader

import (
	"container/list"
	"sync"
)

// tokenCache keeps the tokens of documents that were read or fetched lately, bounded in bytes. The least recently used go first;
// the newest always stays, however large, so that a document beyond the bound is not fetched once a row.
type tokenCache struct {
	limit int64

	mu     sync.Mutex
	held   map[uint64]*list.Element // of *cached
	order  list.List                // most recent first
	bytes  int64
	hits   int64
	misses int64
}

type cached struct {
	sequence uint64
	tokens   []int32
}

// cost counts a document's memory: its tokens and about what the map and the list take.
func (c *cached) cost() int64 { return int64(4*len(c.tokens)) + 128 }

func newTokenCache(limit int64) *tokenCache {
	return &tokenCache{limit: limit, held: map[uint64]*list.Element{}}
}

func (c *tokenCache) put(sequence uint64, tokens []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.held[sequence]; ok {
		c.order.MoveToFront(e)
		return
	}
	x := &cached{sequence, tokens}
	c.held[sequence] = c.order.PushFront(x)
	c.bytes += x.cost()
	for c.bytes > c.limit && c.order.Len() > 1 {
		old := c.order.Remove(c.order.Back()).(*cached)
		delete(c.held, old.sequence)
		c.bytes -= old.cost()
	}
}

func (c *tokenCache) get(sequence uint64) ([]int32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.held[sequence]
	if !ok {
		c.misses++
		return nil, false
	}
	c.hits++
	c.order.MoveToFront(e)
	return e.Value.(*cached).tokens, true
}

func (c *tokenCache) stats() (bytes, hits, misses int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, c.hits, c.misses
}
