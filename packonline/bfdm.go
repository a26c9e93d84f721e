package packonline

// newBFDM returns a packer for modified best-fit-decreasing (Seamless Packing, appendix D.3, item 5) over a bounded
// pool: best-fit-decreasing into bins of capacity L + Extra. The tokens of a bin beyond L are dropped from its end,
// which holds the shortest pieces, and counted. A piece of at most Extra tokens may be dropped completely. Rows stay
// L tokens long, and only a bin with fewer tokens is padded.
//
// The full rows of a document longer than L are emitted unchanged, as in the second stage of the paper. So no further
// piece is put into them just to be dropped.
func newBFDM(c Config) Packer {
	p := newBinPacker(c, false)
	return &p
}
