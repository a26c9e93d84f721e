package assembly

import (
	"sync"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// contentCache caches the content of documents for assembly, bounded in bytes. Documents that no reader needs (see
// need) are evicted first and are limited to a small share of the bound. After them the least recently used ones are
// evicted. The newest document is always kept, whatever its size, so that a document larger than the bound is not
// fetched again for every row.
type contentCache struct {
	limit int64

	mu     sync.Mutex
	held   map[uint64]*cached
	needed class
	spent  class
	need   need
	hits   int64
	misses int64
}

// cached is a document in the cache.
type cached struct {
	document uint64 // plan reference
	content  document.Content
	again    bool // the content's memory may be reused once the document is evicted,
	lent     int  // unless borrowers still use it: their number
	in       *class
	links    [chains]links
	requirement
}

// class is a set of documents of one kind, the most recently used first.
type class struct {
	lru   // byUse
	bytes int64
}

const (
	// entryBytes is the approximate overhead of a document in maps and lists, in bytes.
	entryBytes = 256
	// spentShare is the inverse of the part of the bound that unneeded documents may use. They serve ranks that restart
	// a few steps back.
	spentShare = 32
)

// cost returns a document's size in bytes.
func (x *cached) cost() int64 { return x.content.Bytes() + entryBytes }

// newContentCache returns a cache of limit bytes. While there are no readers, the last recent steps count as needed.
func newContentCache(limit int64, recent uint64) *contentCache {
	c := &contentCache{limit: limit, held: map[uint64]*cached{}}
	c.need = need{held: c.held, sort: c.sort, recent: recent, reads: state.EveryStep, due: map[uint64][]uint64{},
		whole: map[uint64]int64{}, shown: lru{order: byArrival}}
	return c
}

// show caches a document that the planner is about to read as that arrival. Future steps will need all of it.
func (c *contentCache) show(document, arrival uint64, content document.Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.entry(document, content, content.Again)
	c.need.expect(x, arrival)
	c.trim(x)
}

// put caches a document that was read again for a step. Other users may share its content.
func (c *contentCache) put(document, step uint64, content document.Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.entry(document, content, false)
	c.need.require(x, step, 0)
	c.trim(x)
}

// took records which tokens a planned step uses of the documents shown before it.
func (c *contentCache) took(s *plan.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.need.take(s)
	c.trim(nil)
}

// pass sets the first step whose rows readers may still request; state.EveryStep without readers.
func (c *contentCache) pass(step uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.need.read(step)
	c.trim(nil)
}

// lend returns a document whose content stays unchanged until giveBack; nil if it is not cached.
func (c *contentCache) lend(document uint64) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.held[document]
	if x == nil {
		c.misses++
		return nil
	}
	c.hits++
	x.in.use(x)
	x.lent++
	return x
}

// giveBack returns documents from lend, including those that were evicted meanwhile.
func (c *contentCache) giveBack(all []*cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range all {
		x.lent--
	}
}

// peek returns a document's content, which stays unchanged. It does not update the order of use.
func (c *contentCache) peek(ref uint64) (document.Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.held[ref]; ok {
		x.again = false
		return x.content, true
	}
	return document.Content{}, false
}

// touch records that a step needs a document, and makes it the most recently used one. It returns its size in bytes;
// false if it is not cached.
func (c *contentCache) touch(document, step uint64) (bytes int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.held[document]
	if !ok {
		return 0, false
	}
	c.need.require(x, step, 0)
	x.in.use(x)
	return x.cost(), true
}

// whole reports whether all documents of a step are known to be cached, and the approximate size of its rows in
// bytes.
func (c *contentCache) whole(step uint64) (bytes int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes, ok = c.need.whole[step]
	return bytes, ok
}

func (c *contentCache) stats() (bytes, hits, misses int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.needed.bytes + c.spent.bytes, c.hits, c.misses
}

// The caller of each function below holds mu.

// entry returns the entry of a document, and creates it if it is missing.
func (c *contentCache) entry(document uint64, content document.Content, again bool) *cached {
	x, ok := c.held[document]
	if !ok {
		x = &cached{document: document, content: content, again: again}
		c.held[document] = x
	}
	return x
}

// sort moves a document to its current class.
func (c *contentCache) sort(x *cached) {
	in := &c.needed
	if c.need.spent(x) {
		in = &c.spent
	}
	if x.in == in {
		return
	}
	if x.in != nil {
		x.in.remove(x)
	}
	in.add(x)
}

// trim evicts documents until the bounds hold, but never newest.
func (c *contentCache) trim(newest *cached) {
	for c.spent.bytes > c.limit/spentShare && c.dropOf(&c.spent, newest) {
	}
	for c.needed.bytes+c.spent.bytes > c.limit && (c.dropOf(&c.spent, newest) || c.dropOf(&c.needed, newest)) {
	}
}

// dropOf evicts the least recently used document of a class; false if the class has none except newest.
func (c *contentCache) dropOf(in *class, newest *cached) bool {
	x := in.last
	if x != nil && x == newest {
		x = x.links[byUse].before
	}
	if x == nil || newest == nil && len(c.held) == 1 {
		return false
	}
	if in == &c.needed {
		c.need.whole = nil
	}
	in.remove(x)
	c.need.forget(x)
	delete(c.held, x.document)
	if x.again && x.lent == 0 {
		ids := x.content.Narrow
		document.NarrowIDs.Put(&ids)
	}
	return true
}

func (k *class) add(x *cached) {
	x.in = k
	k.pushFront(x)
	k.bytes += x.cost()
}

func (k *class) remove(x *cached) {
	k.lru.remove(x)
	k.bytes -= x.cost()
}

// use makes a document the most recently used one of the class.
func (k *class) use(x *cached) {
	if k.first != x {
		k.lru.remove(x)
		k.pushFront(x)
	}
}
