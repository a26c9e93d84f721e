//go:build !amd64 || purego

package pretokenize

// fill computes the masks of a block.
func (m *masks) fill(p *block) { m.classify(p) }

// sortLetters adds the characters of a block that start at the bits of first to masks, up to an unclear one. It
// returns the places from there on.
func (t *letterKinds) sortLetters(by *letterMasks, p *block, first uint64) (left uint64) {
	return t.sortPlain(by, p, first)
}

// listBits writes i plus the position of each bit of b, which must not be 0, after the first n of ends. It writes up
// to blockSize numbers.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) { listBitsPlain(ends, n, b, i) }
