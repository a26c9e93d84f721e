package columnar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/record"
)

// parquetCell is a value of a row: text, an integer as it is written, or token ids.
type parquetCell struct {
	null bool
	data []byte
	text bool  // data is a text, otherwise a number literal
	size int64 // size of data, or of a value that is not kept because it exceeds the maximum size of a document
	err  error
}

// json returns the value of a plain column.
func (c parquetCell) json() (json.RawMessage, error) {
	switch {
	case c.null:
		return nil, nil
	case c.size > int64(len(c.data)) && c.text:
		return nil, fmt.Errorf("a text of %d bytes", c.size)
	case c.text:
		return record.MarshalText(string(c.data)), nil
	}
	return c.data, nil
}

func (c parquetCell) name() string { return string(c.data[:min(len(c.data), record.MaxLabel+1)]) }

func isBytes(c *schema.Column) bool { return c.PhysicalType() == parquet.Types.ByteArray }

// canBeName reports whether a column can name its row.
func canBeName(c *schema.Column) bool {
	return c.MaxRepetitionLevel() == 0 && (isBytes(c) || columnfile.IsInteger(c))
}

// parquetColumn reads a leaf column row by row.
type parquetColumn struct{ *columnfile.ColumnReader }

// readCells reads up to n rows, and fewer once their total size reaches bytes. It keeps at most most bytes of a row.
func (p *parquetColumn) readCells(n, bytes int, most int64) ([]parquetCell, error) {
	cells, size := make([]parquetCell, 0, n), 0
	for len(cells) <= n {
		more, err := p.HasNext()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		begins := p.IsRowStart()
		if begins && len(cells) > 0 {
			size += len(cells[len(cells)-1].data)
		}
		if begins && (len(cells) == n || size >= bytes) {
			break
		}
		if !begins && len(cells) == 0 {
			return nil, fmt.Errorf("a list has no start: the file is damaged")
		}
		if begins {
			cells = append(cells, parquetCell{})
		}
		p.addValue(&cells[len(cells)-1], most)
		p.Advance()
	}
	return cells, nil
}

// addValue adds a value to a cell.
func (p *parquetColumn) addValue(c *parquetCell, most int64) {
	switch p.Presence() {
	case columnfile.NullRow:
		c.null = true
		return
	case columnfile.NullElement:
		if c.err == nil {
			c.err = fmt.Errorf("token %d is null", c.size/4)
		}
		return
	case columnfile.EmptyList:
		return
	}
	switch {
	case p.IsList():
		if c.size += 4; c.size <= most && c.err == nil {
			var err error
			if c.data, err = record.AppendToken(c.data, p.Integer()); err != nil {
				c.err = fmt.Errorf("token %d: %w", c.size/4-1, err)
			}
		}
	case p.IsText():
		c.text = true
		if c.size = int64(len(p.Text())); c.size <= most {
			c.data = slices.Clone(p.Text())
		}
	case p.IsFloat():
		c.data = strconv.AppendFloat(nil, p.Float(), 'g', -1, 64)
	case p.IsUnsigned():
		c.data = strconv.AppendUint(nil, uint64(p.Integer()), 10)
	default:
		c.data = strconv.AppendInt(nil, p.Integer(), 10)
	}
}
