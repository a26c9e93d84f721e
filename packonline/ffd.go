package packonline

// newFFD makes first-fit-decreasing (Fewer Truncations, Algorithm 1) over a bounded pool: each piece goes into the
// first bin, in the order they were opened, that still holds it. Over a pool that holds everything it is the paper's
// offline algorithm. Where the paper searches a segment tree with a leaf for every bin, bins keeps the numbers of those
// with room in a set.
func newFFD(c Config) Packer {
	p := newWindowed(c, true)
	return &p
}
