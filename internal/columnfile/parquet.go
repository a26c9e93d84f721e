package columnfile

import (
	"errors"
	"fmt"
	"io"
	"os"

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

// ranged is a reader that fetches ranges of bytes [from, to) more efficiently if they are announced.
type ranged interface{ Want(ranges [][2]int64) }

// footerGuess is how many bytes at the end of a file are announced before the size of its footer is known.
const footerGuess = 64 << 10

// NewParquetFile reads a Parquet file of a size from r. done is called by Close, and on error. If r has a method
// Want([][2]int64), the ranges of bytes that will be read are announced to it.
func NewParquetFile(r io.ReaderAt, size int64, done func() error) (*ParquetFile, error) {
	p := &ParquetFile{f: r, size: size, closeFile: done}
	if err := Guard(p.open); err != nil {
		return nil, errors.Join(fmt.Errorf("not a readable Parquet file: %w", err), done())
	}
	return p, nil
}

func (p *ParquetFile) open() error {
	if r, ok := p.f.(ranged); ok {
		r.Want([][2]int64{{max(p.size-footerGuess, 0), p.size}})
	}
	footer, err := checkFooter(p.f, p.size)
	if err != nil {
		return err
	}
	p.pf, err = file.NewParquetReader(io.NewSectionReader(p.f, 0, p.size),
		file.WithReadProps(parquet.NewReaderProperties(newBoundedAllocator(memoryLimit(p.size)))))
	if err != nil {
		return err
	}
	p.pf.MetaData().WriterVersion() // computed by the first call, which must not be concurrent
	return checkSingleFile(p.f, footer-describedEnd(p.pf.MetaData()))
}

// Want announces that some leaf columns of the row groups from first on will be read, and no others.
func (p *ParquetFile) Want(leaves []int, first int) error {
	r, ok := p.f.(ranged)
	if !ok {
		return nil
	}
	var ranges [][2]int64
	err := Guard(func() error {
		for number := first; number < p.NumRowGroups(); number++ {
			for _, leaf := range leaves {
				chunk, err := p.pf.RowGroup(number).MetaData().ColumnChunk(leaf)
				if err != nil {
					return err
				}
				if start, length, err := p.chunkRange(chunk); err == nil { // reading the column returns the error
					ranges = append(ranges, [2]int64{start, start + length})
				}
			}
		}
		return nil
	})
	r.Want(ranges)
	return err
}

// chunkRange returns the offset and the length of a column chunk in bytes.
func (p *ParquetFile) chunkRange(chunk *metadata.ColumnChunkMetaData) (start, length int64, _ error) {
	start, length = chunk.DataPageOffset(), chunk.TotalCompressedSize()
	if d := chunk.DictionaryPageOffset(); chunk.HasDictionaryPage() && d > 0 && d < start {
		start = d
	}
	if start < 0 || length < 0 || start > p.size || length > p.size-start {
		return 0, 0, damagedError("a column has %d bytes at %d in a file of %d", length, start, p.size)
	}
	return start, length, nil
}

// Close closes the file.
func (p *ParquetFile) Close() error { return p.closeFile() }

// MetaData returns the content of the file's footer.
func (p *ParquetFile) MetaData() *metadata.FileMetaData { return p.pf.MetaData() }

// NumRows returns the number of rows according to the footer.
func (p *ParquetFile) NumRows() int64 { return p.pf.NumRows() }

// NumRowGroups returns the number of row groups of the file.
func (p *ParquetFile) NumRowGroups() int { return p.pf.NumRowGroups() }

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
