package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"loaderd/internal/columns"
)

// readParquetLengths reads a top-level column of integers, or of lists of integers, whose lengths count.
func readParquetLengths(name, column string) (lengths []int32, err error) {
	p, err := columns.OpenParquet(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := p.Close(); err == nil {
			err = closed
		}
	}()
	leaf, err := lengthLeaf(p.MetaData().Schema, column)
	if err != nil {
		return nil, err
	}
	c := lengthColumn{name: column, unsigned: unsigned(p.MetaData().Schema.Column(leaf))}
	c.list, c.element = listLevels(p.MetaData().Schema.Column(leaf))
	for g := range p.NumRowGroups() {
		err := columns.Guard(func() error {
			r, err := p.Column(g, leaf)
			if err != nil {
				return err
			}
			return c.read(r)
		})
		if err != nil {
			return nil, fmt.Errorf("row group %d: %w", g, err)
		}
	}
	if rows := p.NumRows(); int64(len(c.lengths)) != rows {
		return nil, fmt.Errorf("holds %d rows, its index says %d: the file is damaged", len(c.lengths), rows)
	}
	return c.lengths, nil
}

// lengthLeaf returns the one leaf below a column of integers or of lists of them.
func lengthLeaf(s *schema.Schema, column string) (int, error) {
	leaf := -1
	var names []string
	for i := range s.NumColumns() {
		top, _, _ := strings.Cut(s.Column(i).Path(), ".")
		if top == column {
			if leaf >= 0 {
				return 0, fmt.Errorf("column %q is nested: want integers, or lists of integers", column)
			}
			leaf = i
		}
		if quoted := strconv.Quote(top); !slices.Contains(names, quoted) {
			names = append(names, quoted)
		}
	}
	if leaf < 0 {
		return 0, fmt.Errorf("no column %q; it has %s", column, strings.Join(names, ", "))
	}
	c := s.Column(leaf)
	_, isInt := c.LogicalType().(*schema.IntLogicalType)
	integer := c.PhysicalType() == parquet.Types.Int32 || c.PhysicalType() == parquet.Types.Int64
	if plain := isInt || c.LogicalType().Equals(schema.NoLogicalType{}); !integer || !plain {
		return 0, fmt.Errorf("column %q is of type %s (logical type %s): want integers, or lists of integers", column, c.PhysicalType(), c.LogicalType())
	}
	if c.MaxRepetitionLevel() > 1 || c.MaxRepetitionLevel() == 0 && c.Path() != column {
		return 0, fmt.Errorf("column %q is nested: want integers, or lists of integers", column)
	}
	return leaf, nil
}

func unsigned(c *schema.Column) bool {
	i, ok := c.LogicalType().(*schema.IntLogicalType)
	return ok && !i.IsSigned()
}

// listLevels says whether a column's rows are lists, and the definition level from which on an element is there.
func listLevels(c *schema.Column) (list bool, element int16) {
	for n := c.SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
		if list && n.RepetitionType() != parquet.Repetitions.Required {
			element++
		}
		if n.RepetitionType() == parquet.Repetitions.Repeated {
			list, element = true, element+1
		}
	}
	return list, element
}

// lengthColumn collects the lengths of a column.
type lengthColumn struct {
	name     string
	unsigned bool
	list     bool
	element  int16 // definition level
	lengths  []int32
	open     int64 // elements of the list that is being read
	started  bool
}

// lengthBatch is how many values are decoded at a time.
const lengthBatch = 8192

// read reads the column's part in a row group.
func (c *lengthColumn) read(r file.ColumnChunkReader) error {
	def, rep := make([]int16, lengthBatch), make([]int16, lengthBatch)
	small, large := make([]int32, lengthBatch), make([]int64, lengthBatch)
	most := r.Descriptor().MaxDefinitionLevel()
	for r.HasNext() {
		var levels int64
		var err error
		switch r := r.(type) {
		case *file.Int32ColumnChunkReader:
			var values int
			levels, values, err = r.ReadBatch(lengthBatch, small, def, rep)
			for i, v := range small[:values] {
				large[i] = int64(v)
				if c.unsigned {
					large[i] = int64(uint32(v))
				}
			}
		case *file.Int64ColumnChunkReader:
			levels, _, err = r.ReadBatch(lengthBatch, large, def, rep)
		default:
			return fmt.Errorf("column %q holds %s", c.name, r.Type())
		}
		if err != nil {
			return err
		}
		if levels == 0 {
			break
		}
		if most == 0 {
			clear(def)
		}
		if err := c.take(def[:levels], rep[:levels], large, most); err != nil {
			return err
		}
	}
	return c.end()
}

// take adds a batch: levels, and the values of those that are not null.
func (c *lengthColumn) take(def, rep []int16, values []int64, most int16) error {
	for i := range def {
		switch {
		case c.list:
			if rep[i] == 0 {
				if err := c.end(); err != nil {
					return err
				}
				c.started = true
			}
			if def[i] >= c.element {
				c.open++
			}
		case def[i] < most:
			return c.refuse("null")
		default:
			if err := c.add(values[0]); err != nil {
				return err
			}
			values = values[1:]
		}
	}
	return nil
}

// end ends the list that is being read, if one is.
func (c *lengthColumn) end() error {
	if !c.started {
		return nil
	}
	n := c.open
	c.open, c.started = 0, false
	if n == 0 {
		return c.refuse("an empty list")
	}
	return c.add(n)
}

func (c *lengthColumn) add(n int64) error {
	switch {
	case n >= 1 && n <= math.MaxInt32:
		c.lengths = append(c.lengths, int32(n))
		return nil
	case c.unsigned:
		return c.refuse(strconv.FormatUint(uint64(n), 10))
	}
	return c.refuse(strconv.FormatInt(n, 10))
}

func (c *lengthColumn) refuse(what string) error {
	return fmt.Errorf("column %q, row %d: %s: %s", c.name, len(c.lengths)+1, what, wantLength)
}
