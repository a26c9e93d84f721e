package assembly

// lru is documents of a cache in an order. Its links are in the documents: one more costs no memory, and the collector
// finds nothing further to look at.
type lru struct {
	order       int // whose links these are: byUse, or byArrival
	first, last *cached
}

// links are the neighbours of a document in a chain; nil at its ends.
type links struct{ before, behind *cached }

// The orders in which a document stands.
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

// remove takes out a document, which is in the chain.
func (c *lru) remove(x *cached) {
	l := x.links[c.order]
	*c.forward(l.before), *c.backward(l.behind) = l.behind, l.before
	x.links[c.order] = links{}
}

// forward is where the document behind x is named: that of nil is the first.
func (c *lru) forward(x *cached) **cached {
	if x == nil {
		return &c.first
	}
	return &x.links[c.order].behind
}

// backward is where the document before x is named: that of nil is the last.
func (c *lru) backward(x *cached) **cached {
	if x == nil {
		return &c.last
	}
	return &x.links[c.order].before
}
