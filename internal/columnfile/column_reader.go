package columnfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// ColumnReader iterates over a leaf column of a row group, value by value: More decodes, Pass advances to the next. A
// row starts where the repetition level is 0. A value is present where the definition level is the maximum.
type ColumnReader struct {
	r                 file.ColumnChunkReader
	pages             *pageReader
	list              bool
	unsigned          bool
	maxDefinition     int16 // definition level of a present value
	elementDefinition int16 // minimum definition level of a list element

	def, rep             []int16
	int32s               []int32
	int64s               []int64
	byteArrays           []parquet.ByteArray
	float32s             []float32
	float64s             []float64
	bools                []bool
	levelPos, levelCount int // levels passed, and levels decoded
	valuePos             int // number of values passed
	page                 int // number of their page
	decoded              int // levels of that page that are decoded
}

// maxSharedBytes bounds the values of one batch that share bytes in their page, and are copied when they are decoded.
const maxSharedBytes = 16 << 20

// Presence describes the content of a position in a column.
type Presence uint8

// A present row or element, a null element, an empty list, and a null row.
const (
	Present Presence = iota
	NullElement
	EmptyList
	NullRow
)

// ReadColumn reads a leaf column: integers of 32 or 64 bits or bytes, numbers or bools, or lists of
// them. batch is how many values are decoded at a time. On damaged data it may panic, as may More: see Guard.
func (g *RowGroup) ReadColumn(leaf, batch int) (*ColumnReader, error) {
	r, pages, err := g.openColumn(leaf)
	if err != nil {
		return nil, err
	}
	c := r.Descriptor()
	v := &ColumnReader{r: r, pages: pages, maxDefinition: c.MaxDefinitionLevel(), list: c.MaxRepetitionLevel() > 0,
		unsigned: isUnsigned(c),
		def:      make([]int16, batch), rep: make([]int16, batch)}
	for n := c.SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
		if v.elementDefinition > 0 && n.RepetitionType() != parquet.Repetitions.Required {
			v.elementDefinition++
		}
		if n.RepetitionType() == parquet.Repetitions.Repeated {
			v.elementDefinition = 1
		}
	}
	switch r.(type) {
	case *file.Int32ColumnChunkReader:
		v.int32s = make([]int32, batch)
	case *file.Int64ColumnChunkReader:
		v.int64s = make([]int64, batch)
	case *file.Float32ColumnChunkReader:
		v.float32s = make([]float32, batch)
	case *file.Float64ColumnChunkReader:
		v.float64s = make([]float64, batch)
	case *file.BooleanColumnChunkReader:
		v.bools = make([]bool, batch)
	default:
		v.byteArrays = make([]parquet.ByteArray, batch)
	}
	return v, nil
}

// HasNext reports whether a value follows that has not been passed.
func (v *ColumnReader) HasNext() (bool, error) {
	if v.levelPos < v.levelCount {
		return true, nil
	}
	v.levelPos, v.levelCount, v.valuePos = 0, 0, 0
	if !v.r.HasNext() {
		return false, v.r.Err()
	}
	var levels int64
	var err error
	batch := v.batchSize()
	switch r := v.r.(type) {
	case *file.Int32ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.int32s, v.def, v.rep)
	case *file.Int64ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.int64s, v.def, v.rep)
	case *file.Float32ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.float32s, v.def, v.rep)
	case *file.Float64ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.float64s, v.def, v.rep)
	case *file.BooleanColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.bools, v.def, v.rep)
	case *file.ByteArrayColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.byteArrays, v.def, v.rep)
	default:
		err = fmt.Errorf("a column of %s", v.r.Type())
	}
	if v.maxDefinition == 0 {
		clear(v.def)
	}
	if !v.list {
		clear(v.rep)
	}
	v.levelCount = int(levels)
	v.decoded += v.levelCount
	return levels > 0, err
}

// batchSize returns how many values are decoded next: only those of one page, because a value is at most as long as its
// page.
func (v *ColumnReader) batchSize() int64 {
	page := v.pages.data
	if page.ordinal != v.page {
		v.page, v.decoded = page.ordinal, 0
	}
	n := min(int64(len(v.def)), page.values-int64(v.decoded))
	if parquet.Encoding(page.encoding) == parquet.Encodings.DeltaByteArray {
		n = min(n, maxSharedBytes/max(page.uncompressed, 1))
	}
	return max(n, 1)
}

// Advance advances to the next value.
func (v *ColumnReader) Advance() {
	if v.def[v.levelPos] >= v.maxDefinition {
		v.valuePos++
	}
	v.levelPos++
}

// IsRowStart reports whether the value starts a row.
func (v *ColumnReader) IsRowStart() bool { return v.rep[v.levelPos] == 0 }

// Presence returns the presence of the value.
func (v *ColumnReader) Presence() Presence {
	switch def := v.def[v.levelPos]; {
	case def >= v.maxDefinition:
		return Present
	case !v.list || def+1 < v.elementDefinition:
		return NullRow
	case def >= v.elementDefinition:
		return NullElement
	}
	return EmptyList
}

// IsList reports whether a row is a list of values.
func (v *ColumnReader) IsList() bool { return v.list }

// IsText reports whether values are bytes, not integers.
func (v *ColumnReader) IsText() bool { return v.byteArrays != nil }

// IsUnsigned reports whether integers are unsigned.
func (v *ColumnReader) IsUnsigned() bool { return v.unsigned }

// IsFloat reports whether values are floating-point numbers.
func (v *ColumnReader) IsFloat() bool { return v.float32s != nil || v.float64s != nil }

// Float returns a present floating-point number.
func (v *ColumnReader) Float() float64 {
	if v.float32s != nil {
		return float64(v.float32s[v.valuePos])
	}
	return v.float64s[v.valuePos]
}

// Integer returns a present integer; an unsigned one of 64 bits as the bits of an int64.
func (v *ColumnReader) Integer() int64 {
	switch {
	case v.int64s != nil:
		return v.int64s[v.valuePos]
	case v.bools != nil:
		if v.bools[v.valuePos] {
			return 1
		}
		return 0
	case v.unsigned:
		return int64(uint32(v.int32s[v.valuePos]))
	}
	return int64(v.int32s[v.valuePos])
}

// Text returns a present value's bytes, valid until More is called.
func (v *ColumnReader) Text() []byte { return v.byteArrays[v.valuePos] }

// IsInteger reports whether a column holds integers, or lists of them, without another logical type.
func IsInteger(c *schema.Column) bool {
	_, isInt := c.LogicalType().(*schema.IntLogicalType)
	plain := isInt || c.LogicalType().Equals(schema.NoLogicalType{})
	return plain && (c.PhysicalType() == parquet.Types.Int32 || c.PhysicalType() == parquet.Types.Int64)
}

func isUnsigned(c *schema.Column) bool {
	i, isInt := c.LogicalType().(*schema.IntLogicalType)
	return isInt && !i.IsSigned()
}

// TopLevelNames returns the names of a schema's top-level columns, in order.
func TopLevelNames(s *schema.Schema) (names []string) {
	for i := range s.NumColumns() {
		if top, _, _ := strings.Cut(s.Column(i).Path(), "."); !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	return names
}
