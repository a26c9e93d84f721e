package assembly

// lru is an ordered list of a cache's documents. Its links are embedded in the documents, so an additional list costs
// no allocation and no work for the garbage collector.
type lru struct {
	order       int // index of its links in cached.links: byUse or byArrival
	first, last *cached
}

// links are the neighbours of a document in a list; nil at its ends.
type links struct{ before, behind *cached }

// The orders in which documents are linked.
const (
	byUse = iota
	byArrival
	chains
)

func (c *lru) pushFront(x *cached) { c.insert(x, links{nil, c.first}) }

func (c *lru) pushBack(x *cached) { c.insert(x, links{c.last, nil}) }

// insert puts a document between two neighbours.
func (c *lru) insert(x *cached, between links) {
	x.links[c.order] = between
	*c.forward(between.before), *c.backward(between.behind) = x, x
}

// remove removes a document from the list, which must contain it.
func (c *lru) remove(x *cached) {
	l := x.links[c.order]
	*c.forward(l.before), *c.backward(l.behind) = l.behind, l.before
	x.links[c.order] = links{}
}

// forward returns the pointer to the successor of x; for nil, the pointer to the first document.
func (c *lru) forward(x *cached) **cached {
	if x == nil {
		return &c.first
	}
	return &x.links[c.order].behind
}

// backward returns the pointer to the predecessor of x; for nil, the pointer to the last document.
func (c *lru) backward(x *cached) **cached {
	if x == nil {
		return &c.last
	}
	return &x.links[c.order].before
}
