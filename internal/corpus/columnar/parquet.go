package columnar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet/schema"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/record"
)

const (
	// parquetBatchRows is how many rows of a column are read at a time.
	parquetBatchRows = 256
	// maxBatchBytes bounds the documents of these rows, because rows of a small file can have the same large value.
	maxBatchBytes = 4 << 20
)

// Parquet reads documents of a Parquet file.
type Parquet struct {
	File    record.File
	Columns record.Columns
	Open    func() (*columnfile.ParquetFile, error)
	// SkippableRows is how many rows may be skipped. Row groups within them are not read if OnGroup is set.
	SkippableRows int64
	// OnGroup is called with the number of rows before each row group, and, with skipped, after a group that is not
	// read. nil: all groups are read.
	OnGroup func(rows int64, skipped bool)
	// OnRows is called with the number of rows read and of all rows.
	OnRows func(done, all int64)
}

// Documents yields a document per row, row group after row group. It returns whether the iteration continues.
func (p Parquet) Documents(yield record.Yield) bool {
	more := true
	if err := p.readRows(func(d record.Document, line int64, err error) bool {
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

func (p Parquet) readRows(give func(record.Document, int64, error) bool) (err error) {
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
	row := int64(0)
	for g := range file.NumRowGroups() {
		if skipped := p.skipGroup(row, file.MetaData().RowGroups[g].NumRows); skipped > 0 {
			row += skipped
			continue
		}
		group, err := openGroup(file, g, leaves)
		if err != nil {
			return fmt.Errorf("row group %d: %w", g, err)
		}
		for {
			var n int
			err := columnfile.Guard(func() (err error) { n, err = group.readRows(p.Columns.MaxDocument); return err })
			if err != nil {
				return fmt.Errorf("row group %d: not a readable Parquet file: %w", g, err)
			}
			if n == 0 {
				break
			}
			for i := range n {
				row++
				d, problem := parquetRow(p.Columns, group, i)
				if !give(d, row, problem) {
					return nil
				}
			}
			p.OnRows(min(row, file.NumRows()), file.NumRows())
		}
	}
	if row != file.NumRows() {
		return fmt.Errorf("has %d rows, its index declares %d: the file is damaged", row, file.NumRows())
	}
	return nil
}

// skipGroup returns the number of rows of a row group that starts at row, if the group can be skipped, else 0.
func (p Parquet) skipGroup(row, rows int64) int64 {
	if p.OnGroup == nil {
		return 0
	}
	p.OnGroup(row, false)
	if rows <= 0 || row+rows > p.SkippableRows {
		return 0
	}
	p.OnGroup(row+rows, true)
	return rows
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

// parquetGroup is a row group that is being read, with a cell per column and row.
type parquetGroup struct {
	columns []*parquetColumn
	cells   [][]parquetCell
}

func openGroup(p *columnfile.ParquetFile, g int, leaves []int) (*parquetGroup, error) {
	group := &parquetGroup{make([]*parquetColumn, len(leaves)), make([][]parquetCell, len(leaves))}
	return group, columnfile.Guard(func() error {
		for i, leaf := range leaves {
			if leaf < 0 {
				continue
			}
			if same := slices.Index(leaves[:i], leaf); same >= 0 {
				group.columns[i] = group.columns[same]
				continue
			}
			values, err := p.ReadColumn(g, leaf, parquetBatchRows)
			if err != nil {
				return err
			}
			group.columns[i] = &parquetColumn{values}
		}
		return nil
	})
}

// readRows reads rows of all columns and returns how many. A name is kept up to the maximum size of an id.
func (g *parquetGroup) readRows(most int64) (n int, err error) {
	if g.cells[textColumn], err = g.columns[textColumn].readCells(parquetBatchRows, maxBatchBytes, most); err != nil {
		return 0, err
	}
	n = len(g.cells[textColumn])
	for i, c := range g.columns {
		if c == nil || i == textColumn {
			continue
		}
		if same := slices.Index(g.columns[:i], c); same >= 0 {
			g.cells[i] = g.cells[same]
		} else if g.cells[i], err = c.readCells(max(n, 1), math.MaxInt, record.MaxID); err != nil {
			return 0, err
		}
		if len(g.cells[i]) != n {
			return 0, errors.New("its columns have different numbers of rows: the file is damaged")
		}
	}
	return n, nil
}

func parquetRow(cols record.Columns, g *parquetGroup, i int) (record.Document, error) {
	cell := func(column int) parquetCell {
		if g.columns[column] == nil {
			return parquetCell{null: true}
		}
		return g.cells[column][i]
	}
	text := cell(textColumn)
	switch {
	case text.null:
		return record.Document{}, record.Errorf("column %q is null", cols.Text)
	case text.err != nil:
		return record.Document{}, record.Errorf("column %q: %w", cols.Text, text.err)
	case text.size > cols.MaxDocument:
		return record.Document{}, cols.TooLargeError(int(text.size))
	}
	d := record.Document{Data: text.data}
	d.SetLabels(func(name string) string {
		return cell(map[string]int{"id": labelColumn, "path": pathColumn, "url": urlColumn}[name]).name()
	}, cell(metaPathColumn).name())
	place := columnCount
	var err error
	d.Meta, err = cols.MetaJSON(func(string) (json.RawMessage, error) { place++; return cell(place - 1).json() })
	if err != nil {
		return record.Document{}, err
	}
	if g.columns[idColumn] == nil {
		return d, nil
	}
	id := cell(idColumn)
	if id.null {
		return record.Document{}, record.Errorf("column %q is null", cols.ID)
	}
	d.ID = string(id.data)
	return d, cols.CheckID(max(int(id.size), len(id.data)))
}

// ParquetFields returns the columns of a Parquet file.
func ParquetFields(name string) (fields []record.Field, err error) {
	p, err := columnfile.OpenParquet(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer p.Close() // read only
	s := p.MetaData().Schema
	for _, top := range columnfile.TopLevelNames(s) {
		leaf, found := findLeaf(s, top)
		typ := "nested"
		if found == 1 {
			typ = leafType(s.Column(leaf))
		}
		fields = append(fields, record.Field{Name: top, Type: typ})
	}
	return fields, nil
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
