package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// parquetPatience is how long the decoder may take for lengthBatch values.
const parquetPatience = 20 * time.Second

// readParquetLengths reads a top-level column of integers, or of lists of integers, whose lengths count.
func readParquetLengths(name, column string) (lengths []int32, err error) {
	err = moving(parquetPatience, func(moved func()) (err error) {
		lengths, err = decodeParquetLengths(name, column, moved)
		return err
	})
	if err != nil {
		return nil, err
	}
	return lengths, nil
}

// moving runs f and gives up when f does not say for so long that it has moved on: on some damaged files the decoder goes round in
// circles, and nothing else can end it. The goroutine is then left to the end of the process.
func moving(patience time.Duration, f func(moved func()) error) error {
	done, moved := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		done <- f(func() {
			select {
			case moved <- struct{}{}:
			default:
			}
		})
	}()
	stuck := time.NewTimer(patience)
	defer stuck.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-moved:
			stuck.Reset(patience)
		case <-stuck.C:
			return fmt.Errorf("not a readable Parquet file: nothing could be decoded for %v: the file is damaged", patience)
		}
	}
}

// decodeParquetLengths reads columns as they lie in the file: the layer above decodes in goroutines of its own, where a damaged file
// ends the process. It calls moved now and then.
func decodeParquetLengths(name, column string, moved func()) (lengths []int32, err error) {
	defer func() {
		// The decoder panics on some damaged files.
		if p := recover(); p != nil {
			lengths, err = nil, fmt.Errorf("not a readable Parquet file: %v", p)
		}
	}()
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	pf, err := file.NewParquetReader(f, file.WithReadProps(props))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("not a readable Parquet file: %w", err), f.Close())
	}
	defer func() {
		if closed := pf.Close(); err == nil {
			err = closed
		}
	}()
	leaf, err := lengthLeaf(pf.MetaData().Schema, column)
	if err != nil {
		return nil, err
	}
	c := lengthColumn{name: column, unsigned: unsigned(pf.MetaData().Schema.Column(leaf))}
	c.list, c.element = listLevels(pf.MetaData().Schema.Column(leaf))
	for g := range pf.NumRowGroups() {
		r, err := pf.RowGroup(g).Column(leaf)
		if err == nil {
			err = c.read(r, moved)
		}
		if err != nil {
			return nil, fmt.Errorf("row group %d: %w", g, err)
		}
	}
	if rows := pf.NumRows(); int64(len(c.lengths)) != rows {
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
func (c *lengthColumn) read(r file.ColumnChunkReader, moved func()) error {
	def, rep := make([]int16, lengthBatch), make([]int16, lengthBatch)
	small, large := make([]int32, lengthBatch), make([]int64, lengthBatch)
	most := r.Descriptor().MaxDefinitionLevel()
	for r.HasNext() {
		moved()
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
