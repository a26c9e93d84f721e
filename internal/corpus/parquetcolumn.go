package corpus

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// parquetCell is a value of a row: text, an integer as it is written, or token ids.
type parquetCell struct {
	null bool
	data []byte
	size int64 // of data, or of what is left out because it is larger than any document
	err  error
}

func (c parquetCell) name() string { return string(c.data[:min(len(c.data), labelMost+1)]) }

func isBytes(c *schema.Column) bool { return c.PhysicalType() == parquet.Types.ByteArray }

func isInteger(c *schema.Column) bool {
	_, isInt := c.LogicalType().(*schema.IntLogicalType)
	plain := isInt || c.LogicalType().Equals(schema.NoLogicalType{})
	return plain && (c.PhysicalType() == parquet.Types.Int32 || c.PhysicalType() == parquet.Types.Int64)
}

// isName says whether a column can name its row.
func isName(c *schema.Column) bool {
	return c.MaxRepetitionLevel() == 0 && (isBytes(c) || isInteger(c))
}

// parquetColumn reads a leaf column row by row. It takes batches of values with their levels: a value is there where the definition level is
// the highest, and begins a new row where the repetition level is 0.
type parquetColumn struct {
	r        file.ColumnChunkReader
	list     bool
	unsigned bool
	most     int16 // definition level of a value that is there
	element  int16 // definition level from which on a list has an element

	def, rep []int16
	small    []int32
	large    []int64
	texts    []parquet.ByteArray
	at, n    int // levels that are read, of those that are decoded
	value    int // values that are read
}

func newParquetColumn(r file.ColumnChunkReader) *parquetColumn {
	c := r.Descriptor()
	i, isInt := c.LogicalType().(*schema.IntLogicalType)
	p := &parquetColumn{r: r, most: c.MaxDefinitionLevel(), list: c.MaxRepetitionLevel() > 0, unsigned: isInt && !i.IsSigned(),
		def: make([]int16, parquetRows), rep: make([]int16, parquetRows)}
	for n := c.SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
		if p.element > 0 && n.RepetitionType() != parquet.Repetitions.Required {
			p.element++
		}
		if n.RepetitionType() == parquet.Repetitions.Repeated {
			p.element = 1
		}
	}
	switch r.(type) {
	case *file.Int32ColumnChunkReader:
		p.small = make([]int32, parquetRows)
	case *file.Int64ColumnChunkReader:
		p.large = make([]int64, parquetRows)
	default:
		p.texts = make([]parquet.ByteArray, parquetRows)
	}
	return p
}

// fill decodes more and says whether there is more.
func (p *parquetColumn) fill() (bool, error) {
	if p.at < p.n {
		return true, nil
	}
	p.at, p.n, p.value = 0, 0, 0
	if !p.r.HasNext() {
		return false, p.r.Err()
	}
	var levels int64
	var err error
	switch r := p.r.(type) {
	case *file.Int32ColumnChunkReader:
		levels, _, err = r.ReadBatch(parquetRows, p.small, p.def, p.rep)
	case *file.Int64ColumnChunkReader:
		levels, _, err = r.ReadBatch(parquetRows, p.large, p.def, p.rep)
	case *file.ByteArrayColumnChunkReader:
		levels, _, err = r.ReadBatch(parquetRows, p.texts, p.def, p.rep)
	default:
		err = fmt.Errorf("a column of %s", p.r.Type())
	}
	if p.most == 0 {
		clear(p.def)
	}
	if !p.list {
		clear(p.rep)
	}
	p.n = int(levels)
	return levels > 0, err
}

// next reads up to n rows. Of a row it keeps no more than most bytes.
func (p *parquetColumn) next(n int, most int64) ([]parquetCell, error) {
	cells := make([]parquetCell, 0, n)
	for len(cells) <= n {
		more, err := p.fill()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		begins := p.rep[p.at] == 0
		if begins && len(cells) == n {
			break
		}
		if !begins && len(cells) == 0 {
			return nil, fmt.Errorf("a list without a beginning: the file is damaged")
		}
		if begins {
			cells = append(cells, parquetCell{})
		}
		p.take(&cells[len(cells)-1], most)
	}
	return cells, nil
}

// take reads one value of a cell.
func (p *parquetColumn) take(c *parquetCell, most int64) {
	def := p.def[p.at]
	p.at++
	if def < p.most {
		switch {
		case !p.list:
			c.null = true
		case def >= p.element && c.err == nil:
			c.err = fmt.Errorf("token %d is null", c.size/4)
		case def+1 < p.element:
			c.null = true
		}
		return
	}
	i := p.value
	p.value++
	switch {
	case p.list:
		if c.size += 4; c.size <= most && c.err == nil {
			var err error
			if c.data, err = appendToken(c.data, p.integer(i)); err != nil {
				c.err = fmt.Errorf("token %d: %w", c.size/4-1, err)
			}
		}
	case p.texts != nil:
		if c.size = int64(len(p.texts[i])); c.size <= most {
			c.data = slices.Clone(p.texts[i])
		}
	case p.unsigned:
		c.data = strconv.AppendUint(nil, uint64(p.integer(i)), 10)
	default:
		c.data = strconv.AppendInt(nil, p.integer(i), 10)
	}
}

func (p *parquetColumn) integer(i int) int64 {
	switch {
	case p.large != nil:
		return p.large[i]
	case p.unsigned:
		return int64(uint32(p.small[i]))
	}
	return int64(p.small[i])
}
