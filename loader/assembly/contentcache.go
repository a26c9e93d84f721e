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

	mu       sync.Mutex
	entries  map[uint64]*cacheEntry
	needed   class
	unneeded class
	usage    usageTracker
	hits     int64
	misses   int64
	lending  bool // other daemons request documents
}

// cacheEntry is a document in the cache.
type cacheEntry struct {
	document  uint64 // plan reference
	content   document.Content
	reusable  bool // the content's memory may be reused once the document is evicted,
	borrowers int  // unless borrowers still use it: their number
	class     *class
	links     [lruOrders]links
	documentUsage
}

// class is a set of documents of one kind, the most recently used first.
type class struct {
	lru   // byUse
	bytes int64
}

const (
	// entryBytes is the approximate overhead of a document in maps and lists, in bytes.
	entryBytes = 256
	// unneededShare is the inverse of the part of the bound that unneeded documents may use. They serve ranks that restart
	// a few steps back.
	unneededShare = 32
	// lendingShare is the same for a daemon whose documents other daemons have requested: their readers may be behind.
	lendingShare = 4
)

// cost returns a document's size in bytes.
func (x *cacheEntry) cost() int64 { return x.content.Bytes() + entryBytes }

// newContentCache returns a cache of limit bytes. While there are no readers, the last recent steps count as needed.
func newContentCache(limit int64, recent uint64) *contentCache {
	c := &contentCache{limit: limit, entries: map[uint64]*cacheEntry{}}
	c.usage = usageTracker{entries: c.entries, classify: c.classify, recent: recent, readFrom: state.NoStep,
		dueDocuments: map[uint64][]uint64{},
		cachedSteps:  map[uint64]int64{}, pending: lru{order: byArrival}}
	return c
}

// onDocument caches a document that the planner is about to read as that arrival. Future steps will need all of it.
func (c *contentCache) onDocument(document, arrival uint64, content document.Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.getOrAdd(document, content, content.Reusable)
	c.usage.addPending(x, arrival)
	c.evict(x)
}

// put caches a document that was read again for a step. shared reports that others may use its content.
func (c *contentCache) put(document, step uint64, content document.Content, shared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.getOrAdd(document, content, content.Reusable && !shared)
	c.usage.recordUse(x, step, 0)
	c.evict(x)
}

// onStep records which tokens a planned step uses of the documents shown before it.
func (c *contentCache) onStep(s *plan.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usage.applyStep(s)
	c.evict(nil)
}

// setNeeded sets the first step whose rows readers may still request; state.NoStep without readers.
func (c *contentCache) setNeeded(step uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usage.setReadFrom(step)
	c.evict(nil)
}

// acquire returns a document whose content stays unchanged until release; nil if it is not cached.
func (c *contentCache) acquire(document uint64) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.entries[document]
	if x == nil {
		c.misses++
		return nil
	}
	c.hits++
	x.class.moveToFront(x)
	x.borrowers++
	return x
}

// borrow returns a document as acquire does, but counts it neither as a hit nor as used.
func (c *contentCache) borrow(document uint64) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.entries[document]
	if x != nil {
		x.borrowers++
	}
	return x
}

// lend returns a document as borrow does, for another daemon.
func (c *contentCache) lend(document uint64) *cacheEntry {
	c.mu.Lock()
	c.lending = true
	c.mu.Unlock()
	return c.borrow(document)
}

// release returns documents from acquire, borrow or lend, including those that were evicted meanwhile.
func (c *contentCache) release(all []*cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range all {
		x.borrowers--
	}
}

// peek returns a document's content, which stays unchanged. It does not update the order of use.
func (c *contentCache) peek(ref uint64) (document.Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.entries[ref]; ok {
		x.reusable = false
		return x.content, true
	}
	return document.Content{}, false
}

// contains reports whether a document is cached.
func (c *contentCache) contains(document uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[document] != nil
}

// touch records that a step needs a document, and makes it the most recently used one. It returns its size in bytes;
// false if it is not cached.
func (c *contentCache) touch(document, step uint64) (bytes int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.entries[document]
	if !ok {
		return 0, false
	}
	c.usage.recordUse(x, step, 0)
	x.class.moveToFront(x)
	return x.cost(), true
}

// cachedStepBytes reports whether all documents of a step are known to be cached, and the approximate size of its rows
// in bytes.
func (c *contentCache) cachedStepBytes(step uint64) (bytes int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes, ok = c.usage.cachedSteps[step]
	return bytes, ok
}

func (c *contentCache) stats() (bytes, hits, misses int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.needed.bytes + c.unneeded.bytes, c.hits, c.misses
}

// The caller of each function below holds mu.

// getOrAdd returns the entry of a document, and creates it if it is missing.
func (c *contentCache) getOrAdd(document uint64, content document.Content, again bool) *cacheEntry {
	x, ok := c.entries[document]
	if !ok {
		x = &cacheEntry{document: document, content: content, reusable: again}
		c.entries[document] = x
	}
	return x
}

// classify moves a document to its current class.
func (c *contentCache) classify(x *cacheEntry) {
	in := &c.needed
	if c.usage.isUnneeded(x) {
		in = &c.unneeded
	}
	if x.class == in {
		return
	}
	if x.class != nil {
		x.class.remove(x)
	}
	in.add(x)
}

// evict evicts documents until the bounds hold, but never newest.
func (c *contentCache) evict(newest *cacheEntry) {
	share := int64(unneededShare)
	if c.lending {
		share = lendingShare
	}
	for c.unneeded.bytes > c.limit/share && c.evictFrom(&c.unneeded, newest) {
	}
	for c.needed.bytes+c.unneeded.bytes > c.limit && (c.evictFrom(&c.unneeded, newest) || c.evictFrom(&c.needed, newest)) {
	}
}

// evictFrom evicts the least recently used document of a class; false if the class has none except newest.
func (c *contentCache) evictFrom(in *class, newest *cacheEntry) bool {
	x := in.last
	if x != nil && x == newest {
		x = x.links[byUse].prev
	}
	if x == nil || newest == nil && len(c.entries) == 1 {
		return false
	}
	if in == &c.needed {
		c.usage.cachedSteps = nil
	}
	in.remove(x)
	c.usage.removePending(x)
	delete(c.entries, x.document)
	if x.reusable && x.borrowers == 0 {
		ids := x.content.NarrowTokens
		document.NarrowPool.Put(&ids)
	}
	return true
}

func (k *class) add(x *cacheEntry) {
	x.class = k
	k.pushFront(x)
	k.bytes += x.cost()
}

func (k *class) remove(x *cacheEntry) {
	k.lru.remove(x)
	k.bytes -= x.cost()
}

// moveToFront makes a document the most recently used one of the class.
func (k *class) moveToFront(x *cacheEntry) {
	if k.first != x {
		k.lru.remove(x)
		k.pushFront(x)
	}
}
