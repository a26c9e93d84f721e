package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Key is a stream of random draws that is addressed by index: hash(seed, purpose, index) -> draw. It has no state. So
// a draw depends only on its address, and streams of different purposes are independent of each other.
type Key struct{ a, b uint64 }

// NewKey derives the stream of a purpose from the seed of a run.
func NewKey(seed uint64, purpose string) Key {
	in := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(purpose)), seed)
	sum := sha256.Sum256(append(in, purpose...))
	return Key{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
}

// Uint64 returns the draw at index, uniform over all 64-bit numbers and the same on every platform.
func (k Key) Uint64(index uint64) uint64 { return splitMix64(splitMix64(index^k.a) + k.b) }

// IntN returns the draw at index as one of the numbers 0 ... n-1. It is the same on every platform. No value is more
// probable than another by more than a fraction of n/2^64. It panics if n is below 1.
func (k Key) IntN(index uint64, n int) int {
	if n < 1 {
		panic("shuffle: draw below a number that is not positive")
	}
	hi, _ := bits.Mul64(k.Uint64(index), uint64(n))
	return int(hi)
}

// splitMix64 is a bijection of 64-bit numbers in which every bit of the input changes every bit of the output with
// probability near 1/2. It is the finalizer of SplitMix64 (variant 13 of David Stafford's mixers).
func splitMix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
