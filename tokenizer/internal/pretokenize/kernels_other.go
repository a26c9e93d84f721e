//go:build (!amd64 && !arm64) || purego

package pretokenize

// compute computes the masks of a block.
func (m *masks) compute(p *block) { m.classify(p) }

// classifyLetters adds the characters of a block that start at the bits of first to masks, up to an unclear one. It
// returns the places from there on.
func (t *letterKinds) classifyLetters(by *letterMasks, p *block, first uint64) (left uint64) {
	return t.sortPlain(by, p, first)
}

// listBits writes i plus the position of each bit of b, which must not be 0, after the first n of ends. It writes up
// to blockSize numbers.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) { listBitsPlain(ends, n, b, i) }
