package document

import "math"

// Narrow writes ids as 16 bits each, and returns the bitwise OR of all ids.
func Narrow(slots []uint16, ids []int32) (bits uint32) {
	slots = slots[:len(ids)] // removes the bounds checks: twice as fast
	for i, id := range ids {
		slots[i] = uint16(id)
		bits |= uint32(id)
	}
	return bits
}

// Fits16 reports whether ids with these bits fit 16 bits. Negative ids have the top bit set.
func Fits16(bits uint32) bool { return bits <= math.MaxUint16 }

// Widen is the inverse of Narrow.
func Widen(slots []int32, ids []uint16) {
	slots = slots[:len(ids)]
	for i, id := range ids {
		slots[i] = int32(id)
	}
}
