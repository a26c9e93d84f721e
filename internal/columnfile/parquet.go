package columnfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
)

// ParquetFile is an open Parquet file. Its leaf columns are read one by one. The library's layer above decodes in
// goroutines, in which a panic on damaged data ends the process, and trusts the embedded Arrow schema of a file.
type ParquetFile struct {
	f         io.ReaderAt
	closeFile func() error
	size      int64
	pf        *file.Reader
	mem       *boundedAllocator
	pool      sync.Pool
}

// OpenParquet opens a Parquet file.
func OpenParquet(name string) (_ *ParquetFile, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return NewParquetFile(f, info.Size(), f.Close)
}

// NewParquetFile reads a Parquet file of a size from r. done is called by Close, and on error.
func NewParquetFile(r io.ReaderAt, size int64, done func() error) (*ParquetFile, error) {
	p := &ParquetFile{f: r, size: size, closeFile: done}
	if err := Guard(p.open); err != nil {
		return nil, errors.Join(fmt.Errorf("not a readable Parquet file: %w", err), done())
	}
	return p, nil
}

func (p *ParquetFile) open() error {
	footer, err := checkFooter(p.f, p.size)
	if err != nil {
		return err
	}
	p.mem = newBoundedAllocator(memoryLimit(p.size))
	p.pool.New = func() any { return memory.NewResizableBuffer(p.mem) }
	p.pf, err = file.NewParquetReader(io.NewSectionReader(p.f, 0, p.size),
		file.WithReadProps(parquet.NewReaderProperties(p.mem)))
	if err != nil {
		return err
	}
	return checkSingleFile(p.f, footer-describedEnd(p.pf.MetaData()))
}

// Close closes the file.
func (p *ParquetFile) Close() error { return p.closeFile() }

// MetaData returns the content of the file's footer.
func (p *ParquetFile) MetaData() *metadata.FileMetaData { return p.pf.MetaData() }

// NumRows returns the number of rows according to the footer.
func (p *ParquetFile) NumRows() int64 { return p.pf.NumRows() }

// NumRowGroups returns the number of row groups of the file.
func (p *ParquetFile) NumRowGroups() int { return p.pf.NumRowGroups() }

// openColumn reads a leaf column of a row group, page by page.
func (p *ParquetFile) openColumn(group, leaf int) (file.ColumnChunkReader, *pageReader, error) {
	chunk, err := p.pf.RowGroup(group).MetaData().ColumnChunk(leaf)
	if err != nil {
		return nil, nil, err
	}
	if chunk.CryptoMetadata() != nil {
		return nil, nil, errors.New("the column is encrypted")
	}
	start, length := chunk.DataPageOffset(), chunk.TotalCompressedSize()
	if d := chunk.DictionaryPageOffset(); chunk.HasDictionaryPage() && d > 0 && d < start {
		start = d
	}
	if start < 0 || length < 0 || start > p.size || length > p.size-start {
		return nil, nil, damagedError("a column has %d bytes at %d in a file of %d", length, start, p.size)
	}
	const oldDictionaryHeader = 100 // some old writers omit it from the length
	length = min(length+oldDictionaryHeader, p.size-start)
	column := p.MetaData().Schema.Column(leaf)
	pages := &pageReader{
		r: bufio.NewReaderSize(io.NewSectionReader(p.f, start, length), 64<<10), leaf: column, valuesLeft: chunk.NumValues(),
		codec: chunk.Compression(), limit: p.mem.limit,
	}
	return file.NewColumnReader(column, pages, p.mem, &p.pool), pages, nil
}

// Guard runs f and returns a panic as an error, because the decoders panic on some damaged data.
func Guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return f()
}

func panicError(p any) error {
	if err, ok := p.(error); ok {
		return err
	}
	return damagedError("%v", p)
}
