package document

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow/go/v17/arrow/float16"

	"loaderd/loader/runconfig"
)

// Extra is further data of a message beyond its tokens, if the run keeps it.
type Extra struct {
	// Columns are the columns of per-token values, in the order of runconfig.Documents.TokenColumns. Values are
	// little-endian and as wide as their type; a bool takes a byte. An entry is nil if the message lacks the column;
	// Columns is nil if it lacks all.
	Columns [][]byte
	// Meta are the values of each document, one document after the other, in the order of
	// runconfig.Documents.MetaColumns. A value is a string, an int64, a float64, or nil for none. Meta is nil if no
	// document has any.
	Meta []any
}

// ColumnValues returns the values of a column for tokens [start, start+length) of the message; nil if the message lacks
// the column. width is the size of one value in bytes.
func (c Content) ColumnValues(place, width int, start, length int32) []byte {
	if c.Extra == nil || c.Extra.Columns == nil || c.Extra.Columns[place] == nil {
		return nil
	}
	return c.Extra.Columns[place][int(start)*width : int(start+length)*width]
}

// MetaValue returns a value of the document that contains a token; nil for none.
func (c Content) MetaValue(place int, token int32) any {
	if c.Extra == nil || c.Extra.Meta == nil {
		return nil
	}
	i, _ := c.DocAt(token)
	kinds := len(c.Extra.Meta) / max(len(c.Docs), 1)
	return c.Extra.Meta[i*kinds+place]
}

// FillValue returns the fill value of a column for tokens without one, encoded as in Extra.Columns.
func FillValue(c runconfig.TokenColumn) []byte {
	switch c.Type {
	case runconfig.ColumnFloat32:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(c.Fill)))
	case runconfig.ColumnFloat16:
		return binary.LittleEndian.AppendUint16(nil, float16.New(float32(c.Fill)).Uint16())
	case runconfig.ColumnInt32:
		return binary.LittleEndian.AppendUint32(nil, uint32(int32(c.Fill)))
	case runconfig.ColumnInt16:
		return binary.LittleEndian.AppendUint16(nil, uint16(int16(c.Fill)))
	}
	return []byte{byte(int8(c.Fill))}
}

const (
	sliceBytes = 24
	valueBytes = 32 // per value of a document, without the bytes of a string
)

func (b *Extra) bytes() (n int64) {
	if b == nil {
		return 0
	}
	n = 2 * sliceBytes
	for _, column := range b.Columns {
		n += int64(cap(column)) + sliceBytes
	}
	for _, value := range b.Meta {
		n += valueBytes
		if text, ok := value.(string); ok {
			n += int64(len(text))
		}
	}
	return n
}
