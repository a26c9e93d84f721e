package columnfile

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// zstdDecoder decodes pages one after the other.
type zstdDecoder struct{ decoder *zstd.Decoder }

func (z *zstdDecoder) open(r io.Reader, limit int64) (io.Reader, error) {
	if z.decoder != nil {
		return z.decoder, z.decoder.Reset(r)
	}
	var err error
	z.decoder, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(max(limit, minMemory))), zstd.WithDecoderMaxMemory(uint64(limit)))
	return z.decoder, err
}

// lz4Raw is LZ4_RAW of Parquet's CompressionCodec, for which the library has no name.
const lz4Raw = compress.Compression(7)

// lz4Block decodes one block of n bytes.
func lz4Block(raw []byte, n int64) ([]byte, error) {
	data := make([]byte, n)
	have, err := lz4.UncompressBlock(raw, data)
	if err != nil {
		return nil, damagedError("a page: %w", err)
	}
	if int64(have) != n {
		return nil, damagedError("an LZ4 page has %d bytes, its header declares %d", have, n)
	}
	return data, nil
}

// hadoopLZ4 decodes blocks of n bytes in total. Each follows its decoded and encoded sizes, big-endian, in the
// framing of Hadoop.
func hadoopLZ4(raw []byte, n int64) (data []byte, err error) {
	const frame = 8
	for len(raw) > 0 {
		if len(raw) < frame {
			return nil, damagedError("an LZ4 page is cut off")
		}
		decoded, encoded := int64(binary.BigEndian.Uint32(raw)), int64(binary.BigEndian.Uint32(raw[4:]))
		if raw = raw[frame:]; encoded > int64(len(raw)) || decoded > n-int64(len(data)) {
			return nil, damagedError("an LZ4 block of %d bytes decodes to %d", encoded, decoded)
		}
		block, err := lz4Block(raw[:encoded], decoded)
		if err != nil {
			return nil, err
		}
		data, raw = append(data, block...), raw[encoded:]
	}
	if int64(len(data)) != n {
		return nil, damagedError("an LZ4 page has %d bytes, its header declares %d", len(data), n)
	}
	return data, nil
}

// decompress returns the declared n bytes of a page. Any other number of bytes is an error.
func (p *pageReader) decompress(raw []byte, n int64) ([]byte, error) {
	if n == 0 && len(raw) == 0 { // only nulls
		return raw, nil
	}
	var r io.Reader
	switch p.codec {
	case compress.Codecs.Uncompressed:
		if int64(len(raw)) != n {
			return nil, damagedError("a page of %d bytes, its header declares %d", len(raw), n)
		}
		return raw, nil
	case compress.Codecs.Snappy:
		have, err := snappy.DecodedLen(raw)
		if err != nil || int64(have) != n {
			return nil, damagedError("a page is not snappy data of %d bytes", n)
		}
		data, err := snappy.Decode(nil, raw)
		if err != nil {
			return nil, damagedError("a page: %w", err)
		}
		return data, nil
	case lz4Raw:
		return lz4Block(raw, n)
	case compress.Codecs.Lz4:
		if data, err := hadoopLZ4(raw, n); err == nil {
			return data, nil
		}
		return lz4Block(raw, n) // without Hadoop's framing, as some writers do
	case compress.Codecs.Zstd:
		var err error
		if r, err = p.zstd.open(bytes.NewReader(raw), p.limit); err != nil {
			return nil, damagedError("a page: %w", err)
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
		return nil, damagedError("a page: %w", err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != io.EOF {
		return nil, damagedError("a page has more than the %d bytes that its header declares", n)
	}
	return data, nil
}
