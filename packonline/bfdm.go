package packonline

// newBFDM makes modified best-fit-decreasing (Seamless Packing, appendix D.3, item 5) over a bounded pool:
// best-fit-decreasing into bins of capacity L + Extra. What a bin holds beyond L tokens is dropped from its end, the
// shortest pieces, and counted; a piece of at most Extra tokens may be dropped whole. Rows stay L tokens long, and only
// a bin of fewer is padded.
//
// The full rows of a document longer than L are emitted as they are, as in the second stage of the paper: none takes up
// another piece just to drop it.
func newBFDM(c Config) Packer {
	p := newWindowed(c, false)
	return &p
}
