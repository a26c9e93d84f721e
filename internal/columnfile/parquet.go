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
	p.pf, err = file.NewParquetReader(io.NewSectionReader(p.f, 0, p.size),
		file.WithReadProps(parquet.NewReaderProperties(newBoundedAllocator(memoryLimit(p.size)))))
	if err != nil {
		return err
	}
	p.pf.MetaData().WriterVersion() // computed by the first call, which must not be concurrent
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
