package assembly

import (
	"sync"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// contentCache keeps the content of documents for the rows that are assembled of them, bounded in bytes. What no reader
// needs any more goes first (need.go), and takes a small share of the bound only; then the least recently used. The
// newest always stays, however large, so that a document larger than the bound is not fetched again for every row.
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
	document uint64 // as the plan names it
	content  document.Content
	again    bool // the content's memory may be used again when the document is dropped, ...
	lent     int  // ... unless so many have what they were lent
	in       *class
	links    [chains]links
	requirement
}

// class is the documents of one kind, the most recently used first.
type class struct {
	lru   // byUse
	bytes int64
}

const (
	// entryBytes is about what a document takes in maps and lists, beside its content.
	entryBytes = 256
	// spentShare is which part of the bound documents that nobody needs may take: for ranks that come back a few steps
	// before they were.
	spentShare = 32
)

// cost counts a document's memory.
func (x *cached) cost() int64 { return x.content.Bytes() + entryBytes }

// newContentCache returns a cache of so many bytes; recent is how many steps behind the newest one are as needed, while
// there are no readers.
func newContentCache(limit int64, recent uint64) *contentCache {
	c := &contentCache{limit: limit, held: map[uint64]*cached{}}
	c.need = need{held: c.held, sort: c.sort, recent: recent, reads: state.EveryStep, due: map[uint64][]uint64{},
		whole: map[uint64]int64{}, shown: lru{order: byArrival}}
	return c
}

// show takes in a document that the planner is about to see as the arrival of a number: steps that are not planned yet
// will need all of it.
func (c *contentCache) show(document, arrival uint64, content document.Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.entry(document, content, content.Again)
	c.need.expect(x, arrival)
	c.trim(x)
}

// put takes in a document that was read again for a step, and which others may have.
func (c *contentCache) put(document, step uint64, content document.Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.entry(document, content, false)
	c.need.require(x, step, 0)
	c.trim(x)
}

// took notes what a step that is planned takes of the documents that were shown before it.
func (c *contentCache) took(s *plan.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.need.take(s)
	c.trim(nil)
}

// pass notes the first step of which readers may still ask for rows; state.EveryStep without readers.
func (c *contentCache) pass(step uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.need.read(step)
	c.trim(nil)
}

// lend returns a document, whose content stays as it is until it is given back; nil when it is not there.
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

// giveBack ends what lend began, also for those that were dropped meanwhile.
func (c *contentCache) giveBack(all []*cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range all {
		x.lent--
	}
}

// peek returns a document's content, which stays as it is, and notes nothing else.
func (c *contentCache) peek(ref uint64) (document.Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.held[ref]; ok {
		x.again = false
		return x.content, true
	}
	return document.Content{}, false
}

// touch notes that a step needs a document and makes it the most recently used one. It returns its bytes; false when it
// is not there.
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

// whole reports whether all documents of a step are held, as far as that is known, and about the bytes that its rows
// take.
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

// Everything below is called with mu held.

// entry returns the entry of a document, a new one where it is not there.
func (c *contentCache) entry(document uint64, content document.Content, again bool) *cached {
	x, ok := c.held[document]
	if !ok {
		x = &cached{document: document, content: content, again: again}
		c.held[document] = x
	}
	return x
}

// sort puts a document into the class in which it belongs now.
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

// trim drops documents until the bounds hold, all but the one that has just come.
func (c *contentCache) trim(newest *cached) {
	for c.spent.bytes > c.limit/spentShare && c.dropOf(&c.spent, newest) {
	}
	for c.needed.bytes+c.spent.bytes > c.limit && (c.dropOf(&c.spent, newest) || c.dropOf(&c.needed, newest)) {
	}
}

// dropOf drops the least recently used document of a class; false when there is none but the newest.
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

// use makes a document of the class the most recently used one.
func (k *class) use(x *cached) {
	if k.first != x {
		k.lru.remove(x)
		k.pushFront(x)
	}
}
