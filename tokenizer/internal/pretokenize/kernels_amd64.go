//go:build !purego

package pretokenize

import "loaderd/tokenizer/internal/processor"

// classifyAVX2 is masks.classify.
//
//go:noescape
func classifyAVX2(m *masks, p *[blockSize]byte)

// listBitsBMI writes i plus the place of each bit of b to ends: as many numbers as b has bits, rounded up to eight. b is not 0.
//
//go:noescape
func listBitsBMI(ends *int32, b uint64, i int)

// fill builds the masks of a block.
func (m *masks) fill(p *[blockSize]byte) {
	if processor.AVX2 {
		classifyAVX2(m, p)
	} else {
		m.classify(p)
	}
}

// listBits writes i plus the place of each bit of b, which is not 0, behind the first n of ends. Up to blockSize are written.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) {
	if processor.AVX2 {
		listBitsBMI(&ends[:BatchSize-blockSize+1][n], b, i)
	} else {
		listBitsPlain(ends, n, b, i)
	}
}
