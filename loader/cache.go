package loader

import (
	"container/list"
	"sync"
)

// contentCache keeps the content of documents that were read or fetched lately, bounded in bytes. The least recently used go first;
// the newest always stays, however large, so that a document larger than the bound is not fetched again for every row.
type contentCache struct {
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
	content  Content
}

// entryBytes is about what a document takes in the map and the list, beside its content.
const entryBytes = 144

// cost counts a document's memory.
func (c *cached) cost() int64 { return c.content.Bytes() + entryBytes }

func newContentCache(limit int64) *contentCache {
	return &contentCache{limit: limit, held: map[uint64]*list.Element{}}
}

func (c *contentCache) put(sequence uint64, content Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.held[sequence]; ok {
		c.order.MoveToFront(e)
		return
	}
	x := &cached{sequence, content}
	c.held[sequence] = c.order.PushFront(x)
	c.bytes += x.cost()
	for c.bytes > c.limit && c.order.Len() > 1 {
		old := c.order.Remove(c.order.Back()).(*cached)
		delete(c.held, old.sequence)
		c.bytes -= old.cost()
	}
}

func (c *contentCache) get(sequence uint64) (Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.held[sequence]
	if !ok {
		c.misses++
		return Content{}, false
	}
	c.hits++
	c.order.MoveToFront(e)
	return e.Value.(*cached).content, true
}

// peek returns what get does, and notes nothing.
func (c *contentCache) peek(sequence uint64) (Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.held[sequence]; ok {
		return e.Value.(*cached).content, true
	}
	return Content{}, false
}

// touch makes a document the most recently used one and returns its bytes; false when it is not there.
func (c *contentCache) touch(sequence uint64) (bytes int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.held[sequence]
	if !ok {
		return 0, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).cost(), true
}

func (c *contentCache) stats() (bytes, hits, misses int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, c.hits, c.misses
}
