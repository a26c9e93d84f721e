package columnfile

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
	"github.com/apache/thrift/lib/go/thrift"
)

// Types of pages.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// pageReader is a file.PageReader that validates a page's header before decoding.
type pageReader struct {
	r          *bufio.Reader
	leaf       *schema.Column
	valuesLeft int64 // values still expected
	bytesLeft  int64 // uncompressed bytes still expected
	onExcess   func()
	codec      compress.Compression
	limit      int64 // bytes per page
	page       file.Page
	data       pageHeader // of the last data page
	err        error
	zstd       zstdDecoder
}

// pageHeader is the content of a page's header.
type pageHeader struct {
	kind, uncompressed, compressed int64
	values, encoding               int64
	definition, repetition         int64 // encodings
	// Of a data page of version 2.
	nulls, rows, definitionBytes, repetitionBytes int64
	plain                                         bool // not compressed

	ordinal int // number of a data page, from 1
}

func (p *pageReader) SetMaxPageHeaderSize(int) {}
func (p *pageReader) Page() file.Page          { return p.page }
func (p *pageReader) Err() error               { return p.err }

// Reset implements file.PageReader, for callers that read several columns with one reader. It is not called.
func (p *pageReader) Reset(parquet.BufferedReader, int64, compress.Compression, *file.CryptoContext) {
	p.err = errors.New("a page reader supports one column")
}

// Next reads the next page and reports whether one exists.
func (p *pageReader) Next() bool {
	p.page = nil
	for p.err == nil && p.page == nil && p.valuesLeft > 0 {
		p.page, p.err = p.readPage()
	}
	return p.page != nil
}

// readPage reads a page; nil for one that holds no data.
func (p *pageReader) readPage() (file.Page, error) {
	h, err := readPageHeader(newCompactReader(p.r))
	if err != nil {
		return nil, damagedError("a page's header: %w", err)
	}
	switch {
	case h.compressed < 0 || h.compressed > p.limit || h.uncompressed < 0 || h.uncompressed > p.limit:
		return nil, damagedError("a page has %d bytes, uncompressed %d: want at most %d in data of its size", h.compressed,
			h.uncompressed, p.limit)
	case h.values < 0 || h.values > 1<<31-1:
		return nil, damagedError("a page of %d values", h.values)
	}
	raw, err := readUpTo(p.r, h.compressed)
	if err != nil {
		return nil, damagedError("a page is cut off: %w", err)
	}
	if p.bytesLeft -= h.uncompressed; p.bytesLeft < 0 && p.onExcess != nil {
		p.onExcess()
	}
	switch h.kind {
	case dictionaryPage:
		// Every value has at least four bytes.
		if h.values > h.uncompressed/4 {
			return nil, damagedError("a dictionary has %d values in %d bytes", h.values, h.uncompressed)
		}
		data, err := p.decompress(raw, h.uncompressed)
		if err != nil {
			return nil, err
		}
		return file.NewDictionaryPage(memory.NewBufferBytes(data), int32(h.values), parquet.Encoding(h.encoding)), nil
	case dataPage:
		if err := p.countValues(h); err != nil {
			return nil, err
		}
		data, err := p.decompress(raw, h.uncompressed)
		if err != nil {
			return nil, err
		}
		if err := checkDataPageV1(p.leaf, h, data); err != nil {
			return nil, err
		}
		return file.NewDataPageV1(memory.NewBufferBytes(data), int32(h.values), parquet.Encoding(h.encoding),
			parquet.Encoding(h.definition), parquet.Encoding(h.repetition), int32(h.uncompressed)), nil
	case dataPageV2:
		return p.readDataPageV2(h, raw)
	}
	return nil, nil
}

// readDataPageV2 decodes a data page of version 2, whose levels are not compressed.
func (p *pageReader) readDataPageV2(h pageHeader, raw []byte) (file.Page, error) {
	if err := p.countValues(h); err != nil {
		return nil, err
	}
	levels := h.definitionBytes + h.repetitionBytes
	if h.definitionBytes < 0 || h.repetitionBytes < 0 || levels > int64(len(raw)) || levels > h.uncompressed {
		return nil, damagedError("levels have %d bytes in a page of %d", levels, len(raw))
	}
	data := raw
	if !h.plain {
		values, err := p.decompress(raw[levels:], h.uncompressed-levels)
		if err != nil {
			return nil, err
		}
		data = append(raw[:levels:levels], values...)
	}
	if err := checkDataPageV2(p.leaf, h, data); err != nil {
		return nil, err
	}
	return file.NewDataPageV2(memory.NewBufferBytes(data), int32(h.values), int32(h.nulls), int32(h.rows),
		parquet.Encoding(h.encoding),
		int32(h.definitionBytes), int32(h.repetitionBytes), int32(h.uncompressed), !h.plain), nil
}

// maxDeltaValues bounds the values of a page in a delta encoding, because its decoder allocates all of them together.
const maxDeltaValues = 16 << 20

// countValues counts a data page's values.
func (p *pageReader) countValues(h pageHeader) error {
	switch encoding := parquet.Encoding(h.encoding); {
	case h.values > p.valuesLeft:
		return damagedError("a page has %d values where %d are left", h.values, p.valuesLeft)
	case h.values > maxDeltaValues && (encoding == parquet.Encodings.DeltaBinaryPacked ||
		encoding == parquet.Encodings.DeltaByteArray ||
		encoding == parquet.Encodings.DeltaLengthByteArray):
		return damagedError("a page has %d values, want at most %d in this encoding", h.values, maxDeltaValues)
	}
	p.valuesLeft -= h.values
	p.data, p.data.ordinal = h, p.data.ordinal+1
	return nil
}

func readPageHeader(c compactReader) (h pageHeader, err error) {
	read := func(to *int64) error {
		var err error
		*to, err = c.readNumber()
		return err
	}
	// inner reads the struct of one of the three page types. Its fields are numbers, except one bool and unused
	// statistics.
	inner := func(fields ...*int64) error {
		return c.readFields(func(id int16, kind thrift.TType) error {
			switch {
			case kind == thrift.I32 && id >= 1 && int(id) <= len(fields):
				return read(fields[id-1])
			case kind == thrift.BOOL && id == 7:
				compressed, err := c.ReadBool(context.Background())
				h.plain = !compressed
				return err
			}
			return c.skip(kind)
		})
	}
	err = c.readFields(func(id int16, kind thrift.TType) error {
		switch {
		case id == 1 && kind == thrift.I32:
			return read(&h.kind)
		case id == 2 && kind == thrift.I32:
			return read(&h.uncompressed)
		case id == 3 && kind == thrift.I32:
			return read(&h.compressed)
		case id == 5 && kind == thrift.STRUCT:
			return inner(&h.values, &h.encoding, &h.definition, &h.repetition)
		case id == 7 && kind == thrift.STRUCT:
			return inner(&h.values, &h.encoding)
		case id == 8 && kind == thrift.STRUCT:
			return inner(&h.values, &h.nulls, &h.rows, &h.encoding, &h.definitionBytes, &h.repetitionBytes)
		}
		return c.skip(kind)
	})
	return h, err
}

// readUpTo reads n bytes. It does not allocate memory for missing bytes.
func readUpTo(r io.Reader, n int64) ([]byte, error) {
	const step = 16 << 20
	b := make([]byte, 0, min(n, step))
	for int64(len(b)) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(n, 2*int64(cap(b)))), b...)
		}
		part := b[len(b):cap(b)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, unexpectedEOF(err)
		}
		b = b[:cap(b)]
	}
	return b, nil
}

// unexpectedEOF returns io.ErrUnexpectedEOF for io.EOF, and other errors unchanged.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
