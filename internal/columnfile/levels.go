package columnfile

import (
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// The decoders loop endlessly if a page has fewer levels, or fewer values, than its header declares. So they are
// counted first.

// checkDataPageV1 validates a data page of version 1: repetition levels, definition levels, values.
func checkDataPageV1(c *schema.Column, h pageHeader, data []byte) error {
	rest, err := skipLevels(data, h.repetition, c.MaxRepetitionLevel(), h.values)
	if err == nil {
		rest, err = skipLevels(rest, h.definition, c.MaxDefinitionLevel(), h.values)
	}
	if err != nil {
		return err
	}
	return checkValues(c, h, rest)
}

// checkDataPageV2 validates a data page of version 2.
func checkDataPageV2(c *schema.Column, h pageHeader, data []byte) error {
	repetition, definition := data[:h.repetitionBytes], data[h.repetitionBytes:h.repetitionBytes+h.definitionBytes]
	if most := c.MaxRepetitionLevel(); most > 0 && !hasLevels(repetition, levelWidth(most), h.values) {
		return levelsError(h)
	}
	if most := c.MaxDefinitionLevel(); most > 0 && !hasLevels(definition, levelWidth(most), h.values) {
		return levelsError(h)
	}
	return checkValues(c, h, data[h.repetitionBytes+h.definitionBytes:])
}

func levelsError(h pageHeader) error {
	return damagedError("a page has fewer levels than the %d values that its header declares", h.values)
}

func levelWidth(most int16) int { return bits.Len16(uint16(most)) }

// skipLevels returns the data after the levels.
func skipLevels(data []byte, encoding int64, most int16, n int64) ([]byte, error) {
	if most == 0 {
		return data, nil
	}
	short := levelsError(pageHeader{values: n})
	if parquet.Encoding(encoding) == parquet.Encodings.BitPacked {
		size := (n*int64(levelWidth(most)) + 7) / 8
		if size > int64(len(data)) {
			return nil, short
		}
		return data[size:], nil
	}
	if len(data) < 4 {
		return nil, short
	}
	size := int64(binary.LittleEndian.Uint32(data))
	if data = data[4:]; size > int64(len(data)) || !hasLevels(data[:size], levelWidth(most), n) {
		return nil, short
	}
	return data[size:], nil
}

// hasLevels reports whether runs of equal and of packed numbers contain at least n numbers.
func hasLevels(data []byte, width int, n int64) bool {
	for n > 0 {
		head, size := binary.Uvarint(data)
		if size <= 0 || head > 1<<32 {
			return false
		}
		data = data[size:]
		count, bytes := int64(head>>1), int64(width+7)/8
		if head&1 == 1 {
			count, bytes = 8*count, count*int64(width)
		}
		if bytes > int64(len(data)) {
			if head&1 == 0 {
				return false
			}
			count, bytes = 8*int64(len(data))/int64(max(width, 1)), int64(len(data)) // the last packed group may be short
		}
		data = data[bytes:]
		n -= count
	}
	return true
}

// checkValues checks the counts of delta encodings. The decoder allocates the declared number of values, and does not
// end if a block has none.
func checkValues(c *schema.Column, h pageHeader, data []byte) error {
	required := c.MaxDefinitionLevel() == 0
	short := damagedError("a page has fewer values than the %d that its header declares", h.values)
	switch encoding := parquet.Encoding(h.encoding); encoding {
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaLengthByteArray:
		var head [3]uint64 // values of a block, blocks within it, values
		for i := range head {
			v, size := binary.Uvarint(data)
			if size <= 0 {
				return short
			}
			head[i], data = v, data[size:]
		}
		const blockMost = 1 << 16
		if head[0] == 0 || head[0] > blockMost || head[1] == 0 || head[1] > head[0] || head[2] > uint64(h.values) ||
			required && head[2] < uint64(h.values) {
			return short
		}
		// The decoder would use a prefix of the previous page's last value, so that values could grow from page to page.
		if first, _ := binary.Varint(data); encoding == parquet.Encodings.DeltaByteArray && head[2] > 0 && first != 0 {
			return damagedError("the first value of a page has a prefix of %d bytes", first)
		}
	}
	return nil
}
