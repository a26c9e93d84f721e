//go:build !purego

package pretokenize

import "loaderd/internal/cpufeature"

// classifyAVX2 is masks.classify.
//
//go:noescape
func classifyAVX2(m *masks, p *block)

// listBitsBMI writes i plus the place of each bit of b to ends: as many numbers as b has bits, rounded up to eight. b
// is not 0.
//
//go:noescape
func listBitsBMI(ends *int32, b uint64, i int)

// sortAVX2 is letterKinds.sortPlain.
//
//go:noescape
func sortAVX2(kind *letterKind, p *block, first uint64, by *letterMasks) (left uint64)

// fill builds the masks of a block.
func (m *masks) fill(p *block) {
	if cpufeature.AVX2 {
		classifyAVX2(m, p)
	} else {
		m.classify(p)
	}
}

// listBits writes i plus the place of each bit of b, which is not 0, behind the first n of ends. Up to blockSize are
// written.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) {
	if cpufeature.AVX2 {
		listBitsBMI(&ends[:BatchSize-blockSize+1][n], b, i)
	} else {
		listBitsPlain(ends, n, b, i)
	}
}

// sortLetters puts the characters of a block that begin at some places, up to an unclear one, into masks. It returns
// the places from there on.
func (t *letterKinds) sortLetters(by *letterMasks, p *block, first uint64) (left uint64) {
	if cpufeature.AVX2 {
		return sortAVX2(&t.kind[0], p, first, by)
	}
	return t.sortPlain(by, p, first)
}
