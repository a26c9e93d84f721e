//go:build !purego

package pretokenize

import "loaderd/internal/cpufeature"

// classifyAVX2 implements masks.classify.
//
//go:noescape
func classifyAVX2(m *masks, p *block)

// listBitsBMI writes i plus the position of each bit of b to ends. It writes as many numbers as b has bits, rounded
// up to eight. b must not be 0.
//
//go:noescape
func listBitsBMI(ends *int32, b uint64, i int)

// sortAVX2 implements letterKinds.sortPlain.
//
//go:noescape
func sortAVX2(kind *letterKind, p *block, first uint64, by *letterMasks) (left uint64)

// compute computes the masks of a block.
func (m *masks) compute(p *block) {
	if cpufeature.AVX2 {
		classifyAVX2(m, p)
	} else {
		m.classify(p)
	}
}

// listBits writes i plus the position of each bit of b, which must not be 0, after the first n of ends. It writes up
// to blockSize numbers.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) {
	if cpufeature.AVX2 {
		listBitsBMI(&ends[:BatchSize-blockSize+1][n], b, i)
	} else {
		listBitsPlain(ends, n, b, i)
	}
}

// classifyLetters adds the characters of a block that start at the bits of first to masks, up to an unclear one. It
// returns the places from there on.
func (t *letterKinds) classifyLetters(by *letterMasks, p *block, first uint64) (left uint64) {
	if cpufeature.AVX2 {
		return sortAVX2(&t.kind[0], p, first, by)
	}
	return t.sortPlain(by, p, first)
}
