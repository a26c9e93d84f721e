package packonline

// newBFD returns a packer for best-fit-decreasing (Fewer Truncations, Algorithm 1 and appendix B) over a bounded
// pool. Each piece is put into the bin with the least room that still holds it. With a pool that holds all pieces, it
// is the paper's offline algorithm.
func newBFD(c Config) Packer {
	p := newBinPacker(c, false)
	return &p
}
