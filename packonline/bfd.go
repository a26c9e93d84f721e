package packonline

// newBFD makes best-fit-decreasing (Fewer Truncations, Algorithm 1 and appendix B) over a bounded pool: each piece goes
// into the bin with the least room that still holds it. Over a pool that holds everything it is the paper's offline
// algorithm.
func newBFD(c Config) Packer {
	p := newWindowed(c, false)
	return &p
}
