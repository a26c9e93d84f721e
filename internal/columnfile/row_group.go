package columnfile

import (
	"bufio"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
)

// RowGroup is a row group of a Parquet file. Several row groups of a file can be read concurrently. Each has its own
// limit on memory, so that the result of reading one does not depend on the others.
type RowGroup struct {
	// OnExcess, if set, is called before a page is decompressed with which a column exceeds the size that the footer
	// declares. The caller may wait in it, so that damaged groups are not decompressed together.
	OnExcess func()

	file   *ParquetFile
	number int
	mem    *boundedAllocator
	pool   sync.Pool
}

// RowGroup returns a row group, from 0.
func (p *ParquetFile) RowGroup(number int) *RowGroup {
	g := &RowGroup{file: p, number: number, mem: newBoundedAllocator(memoryLimit(p.size))}
	g.pool.New = func() any { return memory.NewResizableBuffer(g.mem) }
	return g
}

// UncompressedBytes returns the size of some columns according to the footer. It is 0 for a damaged footer, of which
// ReadColumn returns the error.
func (g *RowGroup) UncompressedBytes(leaves []int) (n int64) {
	err := Guard(func() error {
		for _, leaf := range leaves {
			c, err := g.column(leaf)
			if err != nil {
				return err
			}
			n += min(max(c.TotalUncompressedSize(), 0), math.MaxInt64-n)
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return n
}

func (g *RowGroup) column(leaf int) (*metadata.ColumnChunkMetaData, error) {
	return g.file.pf.RowGroup(g.number).MetaData().ColumnChunk(leaf)
}

// openColumn reads a leaf column, page by page.
func (g *RowGroup) openColumn(leaf int) (file.ColumnChunkReader, *pageReader, error) {
	chunk, err := g.column(leaf)
	if err != nil {
		return nil, nil, err
	}
	if chunk.CryptoMetadata() != nil {
		return nil, nil, errors.New("the column is encrypted")
	}
	start, length, err := g.file.chunkRange(chunk)
	if err != nil {
		return nil, nil, err
	}
	const oldDictionaryHeader = 100 // some old writers omit it from the length
	rest := min(oldDictionaryHeader, g.file.size-start-length)
	// Separate sections, because a buffer that reads ahead must not request bytes of the next column.
	content := io.MultiReader(io.NewSectionReader(g.file.f, start, length),
		io.NewSectionReader(g.file.f, start+length, rest))
	column := g.file.MetaData().Schema.Column(leaf)
	pages := &pageReader{
		r:    bufio.NewReaderSize(content, 64<<10),
		leaf: column, valuesLeft: chunk.NumValues(), bytesLeft: chunk.TotalUncompressedSize(),
		codec: chunk.Compression(), limit: g.mem.limit, onExcess: g.OnExcess,
	}
	return file.NewColumnReader(column, pages, g.mem, &g.pool), pages, nil
}
