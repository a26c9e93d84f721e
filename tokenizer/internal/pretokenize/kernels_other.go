//go:build !amd64 || purego

package pretokenize

// fill builds the masks of a block.
func (m *masks) fill(p *[blockSize]byte) { m.classify(p) }

// listBits writes i plus the place of each bit of b, which is not 0, behind the first n of ends. Up to blockSize are written.
func listBits(ends *[BatchSize]int32, n int, b uint64, i int) { listBitsPlain(ends, n, b, i) }
