package columnar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/record"
)

const (
	// parquetBatchRows is how many rows of a column are read at a time.
	parquetBatchRows = 256
	// maxBatchBytes bounds the documents of these rows, because rows of a small file can have the same large value.
	maxBatchBytes = 4 << 20
	// maxBatches bounds the batches of a row group that are decoded ahead. They also have a limit in bytes.
	maxBatches = 4096
	// rowBytes is the memory of a row besides the content of its document, in bytes.
	rowBytes = 256
)

// parquetGroup is a row group that is decoded ahead, with a cell per column and row of a batch.
type parquetGroup struct {
	*columnfile.RowGroup
	number  int
	leaves  []int
	columns []*parquetColumn
	cells   [][]parquetCell

	weight  int64               // its part of AheadBytes
	ahead   *semaphore.Weighted // bounds the bytes of batches
	most    int64               // the limit of ahead
	batches chan rowBatch
	err     error         // why it ends early; valid once batches is closed
	first   chan struct{} // closed when all groups before it are used
}

// rowBatch is consecutive rows of a row group, with their size in bytes.
type rowBatch struct {
	rows []parquetRow
	size int64 // at most the limit of parquetGroup.ahead
}

// parquetRow is a document, or the error of a row that is not one.
type parquetRow struct {
	document record.Document
	err      error
}

// decodeGroups yields the row groups from first on while they and the following ones are decoded. It waits for the
// decoders at the end.
func (p Parquet) decodeGroups(
	ctx context.Context, file *columnfile.ParquetFile, leaves []int, first int,
) iter.Seq[*parquetGroup] {
	return func(yield func(*parquetGroup) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		inFlight := semaphore.NewWeighted(p.AheadBytes)
		groups := make(chan *parquetGroup, p.AheadGroups)
		running.Go(func() {
			defer close(groups)
			for number := first; number < file.NumRowGroups(); number++ {
				g := p.newGroup(file, number, leaves)
				if inFlight.Acquire(ctx, g.weight) != nil {
					return
				}
				running.Go(func() { g.decode(ctx, p.Columns) })
				select {
				case groups <- g:
				case <-ctx.Done():
					return
				}
			}
		})
		for g := range groups {
			close(g.first)
			if !yield(g) {
				return
			}
			inFlight.Release(g.weight)
		}
	}
}

// newGroup returns a row group that is not decoded yet.
func (p Parquet) newGroup(file *columnfile.ParquetFile, number int, leaves []int) *parquetGroup {
	g := &parquetGroup{RowGroup: file.RowGroup(number), number: number, leaves: leaves, first: make(chan struct{})}
	size := g.UncompressedBytes(presentLeaves(leaves))
	g.weight = min(max(size, p.AheadBytes/int64(p.AheadGroups)), p.AheadBytes)
	g.most = maxBatchBytes
	if size < p.AheadBytes {
		g.most = max(size, maxBatchBytes)
	}
	g.ahead = semaphore.NewWeighted(g.most)
	rows := max(file.MetaData().RowGroups[number].NumRows, 0)
	g.batches = make(chan rowBatch, min(rows/parquetBatchRows+g.most/maxBatchBytes, maxBatches))
	return g
}

// decode sends the rows of the group to batches.
func (g *parquetGroup) decode(ctx context.Context, cols record.Columns) {
	defer close(g.batches)
	g.OnExcess = func() {
		select {
		case <-g.first:
		case <-ctx.Done():
		}
	}
	if err := columnfile.Guard(g.open); err != nil {
		g.err = fmt.Errorf("row group %d: %w", g.number, err)
		return
	}
	for {
		var b rowBatch
		err := columnfile.Guard(func() (err error) { b, err = g.readRows(cols); return err })
		if err != nil {
			g.err = fmt.Errorf("row group %d: not a readable Parquet file: %w", g.number, err)
			return
		}
		if len(b.rows) == 0 {
			return
		}
		if g.err = g.send(ctx, b); g.err != nil {
			return
		}
	}
}

func (g *parquetGroup) send(ctx context.Context, b rowBatch) error {
	if err := g.ahead.Acquire(ctx, b.size); err != nil {
		return err
	}
	select {
	case g.batches <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open prepares to read the columns.
func (g *parquetGroup) open() error {
	g.columns, g.cells = make([]*parquetColumn, len(g.leaves)), make([][]parquetCell, len(g.leaves))
	for i, leaf := range g.leaves {
		if leaf < 0 {
			continue
		}
		if same := slices.Index(g.leaves[:i], leaf); same >= 0 {
			g.columns[i] = g.columns[same]
			continue
		}
		values, err := g.ReadColumn(leaf, parquetBatchRows)
		if err != nil {
			return err
		}
		g.columns[i] = &parquetColumn{values}
	}
	return nil
}

// readRows reads the next rows, none at the end of the group.
func (g *parquetGroup) readRows(cols record.Columns) (b rowBatch, err error) {
	n, err := g.readCells(cols.MaxDocument)
	if err != nil {
		return b, err
	}
	b.rows = make([]parquetRow, n)
	for i := range b.rows {
		d, err := g.document(cols, i)
		b.rows[i] = parquetRow{d, err}
		b.size += int64(len(d.Data)+len(d.Meta)) + rowBytes
	}
	b.size = min(b.size, g.most)
	return b, nil
}

// readCells reads cells of all columns and returns of how many rows. A name is kept up to the maximum size of an id.
func (g *parquetGroup) readCells(most int64) (n int, err error) {
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

// document returns the document of a row of the cells.
func (g *parquetGroup) document(cols record.Columns, i int) (record.Document, error) {
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
