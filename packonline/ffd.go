package packonline

// newFFD returns a packer for first-fit-decreasing (Fewer Truncations, Algorithm 1) over a bounded pool. Each piece
// is put into the first bin, in the order of opening, that still holds it. With a pool that holds all pieces, it is
// the paper's offline algorithm. The paper searches a segment tree with a leaf for every bin; bins has a set of the
// numbers of bins with room.
func newFFD(c Config) Packer {
	p := newBinPacker(c, true)
	return &p
}
