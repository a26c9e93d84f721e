package lengthsin

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/parquet/schema"

	"loaderd/internal/columnfile"
)

// readParquet reads a top-level column of integers, or the lengths of a column of lists of integers.
func readParquet(name, column string) (lengths []int32, err error) {
	p, err := columnfile.OpenParquet(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := p.Close(); err == nil {
			err = closed
		}
	}()
	leaf, err := findLeaf(p.MetaData().Schema, column)
	if err != nil {
		return nil, err
	}
	c := lengthColumn{name: column}
	for g := range p.NumRowGroups() {
		err := columnfile.Guard(func() error {
			values, err := p.RowGroup(g).ReadColumn(leaf, lengthBatch)
			if err != nil {
				return err
			}
			return c.read(values)
		})
		if err != nil {
			return nil, fmt.Errorf("row group %d: %w", g, err)
		}
	}
	if rows := p.NumRows(); int64(len(c.lengths)) != rows {
		return nil, fmt.Errorf("holds %d rows, its index states %d: the file is damaged", len(c.lengths), rows)
	}
	return c.lengths, nil
}

// findLeaf returns the single leaf column of a column of integers or of lists of integers.
func findLeaf(s *schema.Schema, column string) (int, error) {
	nested := fmt.Errorf("column %q is nested: want integers, or lists of integers", column)
	leaf := -1
	for i := range s.NumColumns() {
		if top, _, _ := strings.Cut(s.Column(i).Path(), "."); top != column {
			continue
		}
		if leaf >= 0 {
			return 0, nested
		}
		leaf = i
	}
	if leaf < 0 {
		names := columnfile.TopLevelNames(s)
		for i, n := range names {
			names[i] = strconv.Quote(n)
		}
		return 0, fmt.Errorf("no column %q; it has %s", column, strings.Join(names, ", "))
	}
	c := s.Column(leaf)
	if !columnfile.IsInteger(c) {
		return 0, fmt.Errorf("column %q is of type %s (logical type %s): want integers, or lists of integers", column,
			c.PhysicalType(), c.LogicalType())
	}
	if c.MaxRepetitionLevel() > 1 || c.MaxRepetitionLevel() == 0 && c.Path() != column {
		return 0, nested
	}
	return leaf, nil
}

// lengthBatch is the number of values that are decoded at a time.
const lengthBatch = 8192

// lengthColumn collects the lengths of a column.
type lengthColumn struct {
	name     string
	unsigned bool
	lengths  []int32
	elements int64 // elements of the incomplete list
	inList   bool
}

// read reads the column's chunk of a row group.
func (c *lengthColumn) read(values *columnfile.ColumnReader) error {
	c.unsigned = values.IsUnsigned()
	take := c.addNumber
	if values.IsList() {
		take = c.addElement
	}
	for {
		more, err := values.HasNext()
		if err != nil {
			return err
		}
		if !more {
			return c.endList()
		}
		if err := take(values); err != nil {
			return err
		}
		values.Advance()
	}
}

// addNumber adds a value as a length.
func (c *lengthColumn) addNumber(values *columnfile.ColumnReader) error {
	if values.Presence() != columnfile.Present {
		return c.invalidLength("null")
	}
	return c.addLength(values.Integer())
}

// addElement counts a value as an element of a list. Null counts too.
func (c *lengthColumn) addElement(values *columnfile.ColumnReader) error {
	if values.IsRowStart() {
		if err := c.endList(); err != nil {
			return err
		}
		c.inList = true
	}
	if is := values.Presence(); is == columnfile.Present || is == columnfile.NullElement {
		c.elements++
	}
	return nil
}

// endList completes the present list, if any.
func (c *lengthColumn) endList() error {
	if !c.inList {
		return nil
	}
	n := c.elements
	c.elements, c.inList = 0, false
	if n == 0 {
		return c.invalidLength("an empty list")
	}
	return c.addLength(n)
}

// addLength adds a length if it is valid.
func (c *lengthColumn) addLength(n int64) error {
	switch {
	case n >= 1 && n <= math.MaxInt32:
		c.lengths = append(c.lengths, int32(n))
		return nil
	case c.unsigned:
		return c.invalidLength(strconv.FormatUint(uint64(n), 10))
	}
	return c.invalidLength(strconv.FormatInt(n, 10))
}

func (c *lengthColumn) invalidLength(what string) error {
	return fmt.Errorf("column %q, row %d: %s: %s", c.name, len(c.lengths)+1, what, wantLength)
}
