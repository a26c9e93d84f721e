package columnfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// Values iterates over a leaf column of a row group, value by value: More decodes, Pass advances to the next. A row
// starts where the repetition level is 0. A value is present where the definition level is the maximum.
type Values struct {
	r        file.ColumnChunkReader
	pages    *pageReader
	list     bool
	unsigned bool
	most     int16 // definition level of a present value
	element  int16 // minimum definition level of a list element

	def, rep []int16
	small    []int32
	large    []int64
	texts    []parquet.ByteArray
	singles  []float32
	doubles  []float64
	bits     []bool
	at, n    int // levels passed, and levels decoded
	value    int // number of values passed
	page     int // number of their page
	decoded  int // levels of that page that are decoded
}

// sharedBytes bounds the values of one batch that share bytes in their page, and are copied when they are decoded.
const sharedBytes = 16 << 20

// Presence describes the content of a position in a column.
type Presence uint8

// A present row or element, a null element, an empty list, and a null row.
const (
	Present Presence = iota
	NullElement
	EmptyList
	NullRow
)

// Values reads a leaf column of a row group: integers of 32 or 64 bits or bytes, numbers or bools, or lists of them.
// batch is how many values are decoded at a time. On damaged data it may panic, as may More: see Guard.
func (p *Parquet) Values(group, leaf, batch int) (*Values, error) {
	r, pages, err := p.column(group, leaf)
	if err != nil {
		return nil, err
	}
	c := r.Descriptor()
	v := &Values{r: r, pages: pages, most: c.MaxDefinitionLevel(), list: c.MaxRepetitionLevel() > 0,
		unsigned: isUnsigned(c),
		def:      make([]int16, batch), rep: make([]int16, batch)}
	for n := c.SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
		if v.element > 0 && n.RepetitionType() != parquet.Repetitions.Required {
			v.element++
		}
		if n.RepetitionType() == parquet.Repetitions.Repeated {
			v.element = 1
		}
	}
	switch r.(type) {
	case *file.Int32ColumnChunkReader:
		v.small = make([]int32, batch)
	case *file.Int64ColumnChunkReader:
		v.large = make([]int64, batch)
	case *file.Float32ColumnChunkReader:
		v.singles = make([]float32, batch)
	case *file.Float64ColumnChunkReader:
		v.doubles = make([]float64, batch)
	case *file.BooleanColumnChunkReader:
		v.bits = make([]bool, batch)
	default:
		v.texts = make([]parquet.ByteArray, batch)
	}
	return v, nil
}

// More reports whether a value follows that has not been passed.
func (v *Values) More() (bool, error) {
	if v.at < v.n {
		return true, nil
	}
	v.at, v.n, v.value = 0, 0, 0
	if !v.r.HasNext() {
		return false, v.r.Err()
	}
	var levels int64
	var err error
	batch := v.batch()
	switch r := v.r.(type) {
	case *file.Int32ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.small, v.def, v.rep)
	case *file.Int64ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.large, v.def, v.rep)
	case *file.Float32ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.singles, v.def, v.rep)
	case *file.Float64ColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.doubles, v.def, v.rep)
	case *file.BooleanColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.bits, v.def, v.rep)
	case *file.ByteArrayColumnChunkReader:
		levels, _, err = r.ReadBatch(batch, v.texts, v.def, v.rep)
	default:
		err = fmt.Errorf("a column of %s", v.r.Type())
	}
	if v.most == 0 {
		clear(v.def)
	}
	if !v.list {
		clear(v.rep)
	}
	v.n = int(levels)
	v.decoded += v.n
	return levels > 0, err
}

// batch returns how many values are decoded next: only those of one page, because a value is at most as long as its
// page.
func (v *Values) batch() int64 {
	page := v.pages.data
	if page.number != v.page {
		v.page, v.decoded = page.number, 0
	}
	n := min(int64(len(v.def)), page.values-int64(v.decoded))
	if parquet.Encoding(page.encoding) == parquet.Encodings.DeltaByteArray {
		n = min(n, sharedBytes/max(page.uncompressed, 1))
	}
	return max(n, 1)
}

// Pass advances to the next value.
func (v *Values) Pass() {
	if v.def[v.at] >= v.most {
		v.value++
	}
	v.at++
}

// Begins reports whether the value starts a row.
func (v *Values) Begins() bool { return v.rep[v.at] == 0 }

// Is returns the presence of the value.
func (v *Values) Is() Presence {
	switch def := v.def[v.at]; {
	case def >= v.most:
		return Present
	case !v.list || def+1 < v.element:
		return NullRow
	case def >= v.element:
		return NullElement
	}
	return EmptyList
}

// IsList reports whether a row is a list of values.
func (v *Values) IsList() bool { return v.list }

// IsText reports whether values are bytes, not integers.
func (v *Values) IsText() bool { return v.texts != nil }

// Unsigned reports whether integers are unsigned.
func (v *Values) Unsigned() bool { return v.unsigned }

// IsReal reports whether values are floating-point numbers.
func (v *Values) IsReal() bool { return v.singles != nil || v.doubles != nil }

// Real returns a present floating-point number.
func (v *Values) Real() float64 {
	if v.singles != nil {
		return float64(v.singles[v.value])
	}
	return v.doubles[v.value]
}

// Integer returns a present integer; an unsigned one of 64 bits as the bits of an int64.
func (v *Values) Integer() int64 {
	switch {
	case v.large != nil:
		return v.large[v.value]
	case v.bits != nil:
		if v.bits[v.value] {
			return 1
		}
		return 0
	case v.unsigned:
		return int64(uint32(v.small[v.value]))
	}
	return int64(v.small[v.value])
}

// Text returns a present value's bytes, valid until More is called.
func (v *Values) Text() []byte { return v.texts[v.value] }

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

// TopNames returns the names of a schema's top-level columns, in order.
func TopNames(s *schema.Schema) (names []string) {
	for i := range s.NumColumns() {
		if top, _, _ := strings.Cut(s.Column(i).Path(), "."); !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	return names
}
