package assembly

// lru is an ordered list of a cache's documents. Its links are embedded in the documents, so an additional list costs
// no allocation and no work for the garbage collector.
type lru struct {
	order       int // index of its links in cached.links: byUse or byArrival
	first, last *cacheEntry
}

// links are the neighbours of a document in a list; nil at its ends.
type links struct{ prev, next *cacheEntry }

// The orders in which documents are linked.
const (
	byUse = iota
	byArrival
	lruOrders
)

func (c *lru) pushFront(x *cacheEntry) { c.insert(x, links{nil, c.first}) }

func (c *lru) pushBack(x *cacheEntry) { c.insert(x, links{c.last, nil}) }

// insert puts a document between two neighbours.
func (c *lru) insert(x *cacheEntry, between links) {
	x.links[c.order] = between
	*c.nextLink(between.prev), *c.prevLink(between.next) = x, x
}

// remove removes a document from the list, which must contain it.
func (c *lru) remove(x *cacheEntry) {
	l := x.links[c.order]
	*c.nextLink(l.prev), *c.prevLink(l.next) = l.next, l.prev
	x.links[c.order] = links{}
}

// nextLink returns the pointer to the successor of x; for nil, the pointer to the first document.
func (c *lru) nextLink(x *cacheEntry) **cacheEntry {
	if x == nil {
		return &c.first
	}
	return &x.links[c.order].next
}

// prevLink returns the pointer to the predecessor of x; for nil, the pointer to the last document.
func (c *lru) prevLink(x *cacheEntry) **cacheEntry {
	if x == nil {
		return &c.last
	}
	return &x.links[c.order].prev
}
