package columns

import (
	"bytes"
	"io"

	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// zstdPages decodes pages one after the other.
type zstdPages struct{ decoder *zstd.Decoder }

func (z *zstdPages) open(r io.Reader, limit int64) (io.Reader, error) {
	if z.decoder != nil {
		return z.decoder, z.decoder.Reset(r)
	}
	var err error
	z.decoder, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(max(limit, plenty))), zstd.WithDecoderMaxMemory(uint64(limit)))
	return z.decoder, err
}

// decompress returns the n bytes that a page is said to hold; a page that holds more or fewer is an error.
func (p *pageReader) decompress(raw []byte, n int64) ([]byte, error) {
	if n == 0 && len(raw) == 0 { // of nulls alone
		return raw, nil
	}
	var r io.Reader
	switch p.codec {
	case compress.Codecs.Uncompressed:
		if int64(len(raw)) != n {
			return nil, damaged("a page of %d bytes that is said to have %d", len(raw), n)
		}
		return raw, nil
	case compress.Codecs.Snappy:
		have, err := snappy.DecodedLen(raw)
		if err != nil || int64(have) != n {
			return nil, damaged("a page that is not snappy of %d bytes", n)
		}
		data, err := snappy.Decode(nil, raw)
		if err != nil {
			return nil, damaged("a page: %w", err)
		}
		return data, nil
	case compress.Codecs.Zstd:
		var err error
		if r, err = p.zstd.open(bytes.NewReader(raw), p.limit); err != nil {
			return nil, damaged("a page: %w", err)
		}
	default:
		codec, err := compress.GetCodec(p.codec)
		if err != nil {
			return nil, err
		}
		r = codec.NewReader(bytes.NewReader(raw))
	}
	data, err := readUpTo(r, n)
	if err != nil {
		return nil, damaged("a page: %w", err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != io.EOF {
		return nil, damaged("a page holds more than the %d bytes that it is said to", n)
	}
	return data, nil
}
