package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet/schema"

	"loaderd/internal/columns"
)

const (
	// parquetRows is how many rows of a column are read at a time.
	parquetRows = 256
	// batchBytes bounds the documents of these rows: rows of a small file can have the same large value.
	batchBytes = 4 << 20
)

// parquet yields a document a row, row group after row group.
func (in *Input) parquet(ctx context.Context, s source, yield yielder) bool {
	more := true
	if err := in.parquetRows(ctx, s, func(d Document, line int64, err error) bool {
		if err != nil {
			more = s.skip(yield, line, err)
		} else {
			more = s.give(yield, d)
		}
		return more
	}); err != nil {
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
	}
	return more
}

// openParquet opens a Parquet file where it is.
func (in *Input) openParquet(ctx context.Context, s source) (*columns.Parquet, error) {
	if s.object == nil {
		return columns.OpenParquet(s.origin)
	}
	return columns.ReadParquet(in.options.Stores.At(ctx, *s.object), s.object.Size, func() error { return nil })
}

func (in *Input) parquetRows(ctx context.Context, s source, give func(Document, int64, error) bool) (err error) {
	p, err := in.openParquet(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		if closed := p.Close(); err == nil {
			err = closed
		}
	}()
	o := in.options
	leaves, err := o.leaves(p.MetaData().Schema)
	if err != nil {
		return err
	}
	row := int64(0)
	for g := range p.NumRowGroups() {
		if len(in.files) == 1 {
			in.at = Place{Entries: row}
			if rows := p.MetaData().RowGroups[g].NumRows; rows > 0 && row+rows <= in.from.Entries {
				row += rows
				in.begin(Place{Entries: row})
				continue
			}
		}
		group, err := openGroup(p, g, leaves)
		if err != nil {
			return fmt.Errorf("row group %d: %w", g, err)
		}
		for {
			var n int
			if err := columns.Guard(func() (err error) { n, err = group.next(o.MaxDocument); return err }); err != nil {
				return fmt.Errorf("row group %d: not a readable Parquet file: %w", g, err)
			}
			if n == 0 {
				break
			}
			for i := range n {
				row++
				d, problem := o.parquetRow(group, i)
				if !give(d, row, problem) {
					return nil
				}
			}
			in.read.Store(s.size * min(row, p.NumRows()) / max(1, p.NumRows()))
		}
	}
	if row != p.NumRows() {
		return fmt.Errorf("holds %d rows, its index says %d: the file is damaged", row, p.NumRows())
	}
	return nil
}

// The columns that are read, of those that are there.
const (
	textColumn = iota
	idColumn
	labelColumn
	pathColumn
	metaPathColumn
	urlColumn
	columnCount
)

// leaves finds the leaf columns; -1 for one that is not there, or is not of a kind that is read.
func (o Options) leaves(s *schema.Schema) (at []int, err error) {
	at = make([]int, columnCount, columnCount+len(o.Meta))
	top := make([]string, s.Root().NumFields())
	for i := range top {
		top[i] = s.Root().Field(i).Name()
	}
	if err := o.checkUnique(top); err != nil {
		return at, err
	}
	names := []string{o.TextField, o.IDField, "id", "path", "meta.path", "url"}
	for i, name := range names {
		at[i] = -1
		if name == "" {
			continue
		}
		leaf, found := leafOf(s, name)
		if i > idColumn {
			if found == 1 && isName(s.Column(leaf)) {
				at[i] = leaf
			}
			continue
		}
		switch {
		case found == 0:
			return at, o.missingColumn(name, columns.TopNames(s))
		case found > 1:
			return at, fmt.Errorf("column %q is nested: want a plain column", name)
		}
		if err := o.checkLeaf(name, s.Column(leaf), i == textColumn && o.Tokens); err != nil {
			return at, err
		}
		at[i] = leaf
	}
	for _, m := range o.Meta {
		leaf, found := leafOf(s, m.Column)
		switch {
		case found == 0:
			return at, o.missingColumn(m.Column, columns.TopNames(s))
		case found > 1 || s.Column(leaf).MaxRepetitionLevel() > 0:
			return at, fmt.Errorf("column %q is nested or a list: want a plain column", m.Column)
		}
		at = append(at, leaf)
	}
	return at, nil
}

// leafOf returns the leaf of a column, named by its whole path or by its first part, and how many there are.
func leafOf(s *schema.Schema, name string) (leaf, found int) {
	for i := range s.NumColumns() {
		path := s.Column(i).Path()
		if top, _, _ := strings.Cut(path, "."); path == name || top == name {
			leaf = i
			found++
		}
	}
	return leaf, found
}

func (o Options) checkLeaf(name string, c *schema.Column, tokens bool) error {
	want := ""
	switch {
	case tokens && (c.MaxRepetitionLevel() != 1 || !columns.IsInteger(c)):
		want = "a list of token ids"
	case !tokens && name == o.TextField && (c.MaxRepetitionLevel() > 0 || !isBytes(c)):
		want = "text"
	case !tokens && !isName(c):
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

// parquetGroup is a row group that is being read: a cell a column and row.
type parquetGroup struct {
	columns []*parquetColumn
	cells   [][]parquetCell
}

func openGroup(p *columns.Parquet, g int, leaves []int) (*parquetGroup, error) {
	group := &parquetGroup{make([]*parquetColumn, len(leaves)), make([][]parquetCell, len(leaves))}
	return group, columns.Guard(func() error {
		for i, leaf := range leaves {
			if leaf < 0 {
				continue
			}
			if same := slices.Index(leaves[:i], leaf); same >= 0 {
				group.columns[i] = group.columns[same]
				continue
			}
			values, err := p.Values(g, leaf, parquetRows)
			if err != nil {
				return err
			}
			group.columns[i] = &parquetColumn{values}
		}
		return nil
	})
}

// next reads rows of all columns and returns how many. Of names it keeps no more than an id may have.
func (g *parquetGroup) next(most int64) (n int, err error) {
	if g.cells[textColumn], err = g.columns[textColumn].next(parquetRows, batchBytes, most); err != nil {
		return 0, err
	}
	n = len(g.cells[textColumn])
	for i, c := range g.columns {
		if c == nil || i == textColumn {
			continue
		}
		if same := slices.Index(g.columns[:i], c); same >= 0 {
			g.cells[i] = g.cells[same]
		} else if g.cells[i], err = c.next(max(n, 1), math.MaxInt, idMost); err != nil {
			return 0, err
		}
		if len(g.cells[i]) != n {
			return 0, errors.New("its columns have different numbers of rows: the file is damaged")
		}
	}
	return n, nil
}

func (o Options) parquetRow(g *parquetGroup, i int) (Document, error) {
	cell := func(column int) parquetCell {
		if g.columns[column] == nil {
			return parquetCell{null: true}
		}
		return g.cells[column][i]
	}
	text := cell(textColumn)
	switch {
	case text.null:
		return Document{}, bad("column %q is null", o.TextField)
	case text.err != nil:
		return Document{}, bad("column %q: %w", o.TextField, text.err)
	case text.size > o.MaxDocument:
		return Document{}, o.tooLarge(int(text.size))
	}
	d := Document{Data: text.data}
	d.name(func(name string) string {
		return cell(map[string]int{"id": labelColumn, "path": pathColumn, "url": urlColumn}[name]).name()
	}, cell(metaPathColumn).name())
	place := columnCount
	var err error
	if d.Meta, err = o.metaOf(func(string) (json.RawMessage, error) { place++; return cell(place - 1).json() }); err != nil {
		return Document{}, err
	}
	if g.columns[idColumn] == nil {
		return d, nil
	}
	id := cell(idColumn)
	if id.null {
		return Document{}, bad("column %q is null", o.IDField)
	}
	d.ID = string(id.data)
	return d, o.checkID(max(int(id.size), len(id.data)))
}
