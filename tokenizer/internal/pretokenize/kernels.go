//go:build (amd64 || arm64) && !purego

package pretokenize

import "loaderd/internal/cpufeature"

// classifyKernel implements masks.classify.
//
//go:noescape
func classifyKernel(m *masks, p *block)

// listBitsKernel writes i plus the position of each bit of b to ends. It writes as many numbers as b has bits, rounded
// up to eight. b must not be 0.
//
//go:noescape
func listBitsKernel(ends *int32, b uint64, i int)

// sortKernel implements letterKinds.sortPlain.
//
//go:noescape
func sortKernel(kind *letterKind, p *block, first uint64, by *letterMasks) (left uint64)

// compute computes the masks of a block.
func (m *masks) compute(p *block) {
	if cpufeature.Kernels {
		classifyKernel(m, p)
	} else {
		m.classify(p)
	}
}

// listBits writes i plus the position of each bit of b, which must not be 0, after the first n of ends. It writes up
// to blockSize numbers.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) {
	if cpufeature.Kernels {
		listBitsKernel(&ends[:BatchSize-blockSize+1][n], b, i)
	} else {
		listBitsPlain(ends, n, b, i)
	}
}

// classifyLetters adds the characters of a block that start at the bits of first to masks, up to an unclear one. It
// returns the places from there on.
func (t *letterKinds) classifyLetters(by *letterMasks, p *block, first uint64) (left uint64) {
	if cpufeature.Kernels {
		return sortKernel(&t.kind[0], p, first, by)
	}
	return t.sortPlain(by, p, first)
}
