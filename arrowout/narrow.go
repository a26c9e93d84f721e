package arrowout

import (
	"encoding/binary"

	"github.com/apache/arrow/go/v17/arrow"
)

const (
	fourWide = 4 * arrow.Int32SizeBytes
	// beyond has, of two int32 side by side, the bits that uint16 has not.
	beyond = 0xffff0000_ffff0000
)

// narrowed writes ids to as many slots of uint16, and says whether all fit. It takes four at a time: one by one is several times slower. (Like all that is
// sent, it takes a little-endian processor.)
func narrowed(slots []uint16, ids []int32) bool {
	var over uint64
	from, to := arrow.Int32Traits.CastToBytes(ids), arrow.Uint16Traits.CastToBytes(slots)
	for ; len(from) >= fourWide; from, to = from[fourWide:], to[fourWide/2:] {
		a, b := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint64(from[8:])
		over |= a | b
		binary.LittleEndian.PutUint64(to, uint64(uint32(a)|uint32(a>>16))|uint64(uint32(b)|uint32(b>>16))<<32)
	}
	over &= beyond
	for i := len(ids) &^ 3; i < len(ids); i++ {
		slots[i] = uint16(ids[i])
		over |= uint64(uint32(ids[i]) &^ (wideLimit - 1))
	}
	return over == 0
}
