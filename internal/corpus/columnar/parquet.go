package columnar

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet/schema"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/record"
)

// Parquet reads documents of a Parquet file. Row groups are decoded concurrently, and yielded in order.
type Parquet struct {
	File    record.File
	Columns record.Columns
	Open    func() (*columnfile.ParquetFile, error)
	// AheadGroups is how many row groups are decoded at the same time, at least 1. AheadBytes bounds their uncompressed
	// bytes, and their documents that are not yielded yet. A larger row group is decoded alone, in parts.
	AheadGroups int
	AheadBytes  int64
	// SkippableRows is how many rows may be skipped. Row groups within them are not read if OnGroup is set.
	SkippableRows int64
	// OnGroup is called with the number of rows before each row group, and, with skipped, after a group that is not
	// read. nil: all groups are read.
	OnGroup func(rows int64, skipped bool)
	// OnRows is called before each row with the number of rows up to it and of all rows.
	OnRows func(done, all int64)
}

// Documents yields a document per row, row group after row group. It returns whether the iteration continues. If it
// does not, ctx must end the pending reads, for which Documents waits.
func (p Parquet) Documents(ctx context.Context, yield record.Yield) bool {
	more := true
	if err := p.readRows(ctx, func(d record.Document, line int64, err error) bool {
		if err != nil {
			more = p.File.Skip(yield, line, err)
		} else {
			more = p.File.Emit(yield, d)
		}
		return more
	}); err != nil {
		return p.File.Fail(yield, err)
	}
	return more
}

func (p Parquet) readRows(ctx context.Context, give func(record.Document, int64, error) bool) (err error) {
	file, err := p.Open()
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	leaves, err := findLeaves(p.Columns, file.MetaData().Schema)
	if err != nil {
		return err
	}
	first, row := p.skipGroups(file)
	if err := file.Want(presentLeaves(leaves), first); err != nil {
		return err
	}
	for group := range p.decodeGroups(ctx, file, leaves, first) {
		if p.OnGroup != nil {
			p.OnGroup(row, false)
		}
		for batch := range group.batches {
			for _, r := range batch.rows {
				row++
				p.OnRows(min(row, file.NumRows()), file.NumRows())
				if !give(r.document, row, r.err) {
					return nil
				}
			}
			group.ahead.Release(batch.size)
		}
		if group.err != nil {
			return group.err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if row != file.NumRows() {
		return fmt.Errorf("has %d rows, its index declares %d: the file is damaged", row, file.NumRows())
	}
	return nil
}

// presentLeaves returns the distinct leaf columns that are read.
func presentLeaves(leaves []int) (present []int) {
	for _, leaf := range leaves {
		if leaf >= 0 && !slices.Contains(present, leaf) {
			present = append(present, leaf)
		}
	}
	return present
}

// skipGroups returns the first row group to read, and the number of rows before it.
func (p Parquet) skipGroups(file *columnfile.ParquetFile) (first int, row int64) {
	if p.OnGroup == nil {
		return 0, 0
	}
	for ; first < file.NumRowGroups(); first++ {
		p.OnGroup(row, false)
		rows := file.MetaData().RowGroups[first].NumRows
		if rows <= 0 || rows > p.SkippableRows-row {
			break
		}
		row += rows
		p.OnGroup(row, true)
	}
	return first, row
}

// The columns that are read if present.
const (
	textColumn = iota
	idColumn
	labelColumn
	pathColumn
	metaPathColumn
	urlColumn
	columnCount
)

// findLeaves returns the leaf columns; -1 for one that is missing or has an unsupported type.
func findLeaves(cols record.Columns, s *schema.Schema) (at []int, err error) {
	at = make([]int, columnCount, columnCount+len(cols.Meta))
	top := make([]string, s.Root().NumFields())
	for i := range top {
		top[i] = s.Root().Field(i).Name()
	}
	if err := cols.CheckUnique(top); err != nil {
		return at, err
	}
	names := []string{cols.Text, cols.ID, "id", "path", "meta.path", "url"}
	for i, name := range names {
		at[i] = -1
		if name == "" {
			continue
		}
		leaf, found := findLeaf(s, name)
		if i > idColumn {
			if found == 1 && canBeName(s.Column(leaf)) {
				at[i] = leaf
			}
			continue
		}
		switch {
		case found == 0:
			return at, cols.MissingColumnError(name, columnfile.TopLevelNames(s))
		case found > 1:
			return at, fmt.Errorf("column %q is nested: want a plain column", name)
		}
		if err := checkLeaf(cols, name, s.Column(leaf), i == textColumn && cols.Tokens); err != nil {
			return at, err
		}
		at[i] = leaf
	}
	for _, m := range cols.Meta {
		leaf, found := findLeaf(s, m.Column)
		switch {
		case found == 0:
			return at, cols.MissingColumnError(m.Column, columnfile.TopLevelNames(s))
		case found > 1 || s.Column(leaf).MaxRepetitionLevel() > 0:
			return at, fmt.Errorf("column %q is nested or a list: want a plain column", m.Column)
		}
		at = append(at, leaf)
	}
	return at, nil
}

// findLeaf returns the leaf of a column, named by its whole path or by its first element, and the number of such
// leaves.
func findLeaf(s *schema.Schema, name string) (leaf, found int) {
	for i := range s.NumColumns() {
		path := s.Column(i).Path()
		if top, _, _ := strings.Cut(path, "."); path == name || top == name {
			leaf = i
			found++
		}
	}
	return leaf, found
}

func checkLeaf(cols record.Columns, name string, c *schema.Column, tokens bool) error {
	want := ""
	switch {
	case tokens && (c.MaxRepetitionLevel() != 1 || !columnfile.IsInteger(c)):
		want = "a list of token ids"
	case !tokens && name == cols.Text && (c.MaxRepetitionLevel() > 0 || !isBytes(c)):
		want = "text"
	case !tokens && !canBeName(c):
		want = "text or integers"
	}
	if want == "" {
		return nil
	}
	list, logical := "", ""
	if c.MaxRepetitionLevel() > 0 {
		list = "lists of "
	}
	if !c.LogicalType().Equals(schema.NoLogicalType{}) {
		logical = " (" + c.LogicalType().String() + ")"
	}
	return fmt.Errorf("column %q is %s%s%s: want %s", name, list, c.PhysicalType(), logical, want)
}

// ParquetFields returns the columns of a Parquet file.
func ParquetFields(p *columnfile.ParquetFile) (fields []record.Field) {
	s := p.MetaData().Schema
	for _, top := range columnfile.TopLevelNames(s) {
		leaf, found := findLeaf(s, top)
		typ := "nested"
		if found == 1 {
			typ = leafType(s.Column(leaf))
		}
		fields = append(fields, record.Field{Name: top, Type: typ})
	}
	return fields
}

func leafType(c *schema.Column) string {
	typ := strings.ToLower(c.PhysicalType().String())
	if !c.LogicalType().Equals(schema.NoLogicalType{}) {
		typ = strings.ToLower(c.LogicalType().String())
	}
	if c.MaxRepetitionLevel() > 0 {
		return "list of " + typ
	}
	return typ
}
