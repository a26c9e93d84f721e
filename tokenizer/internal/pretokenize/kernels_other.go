//go:build !amd64 || purego

package pretokenize

// fill builds the masks of a block.
func (m *masks) fill(p *block) { m.classify(p) }

// sortLetters puts the characters of a block that begin at some places, up to an unclear one, into masks. It returns
// the places from there on.
func (t *letterKinds) sortLetters(by *letterMasks, p *block, first uint64) (left uint64) {
	return t.sortPlain(by, p, first)
}

// listBits writes i plus the place of each bit of b, which is not 0, behind the first n of ends. Up to blockSize are
// written.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) { listBitsPlain(ends, n, b, i) }
