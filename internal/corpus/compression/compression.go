// Package compression reads files that may be compressed: gzip, zstd, bzip2 and xz, which it detects by their first
// bytes. It bounds the memory of a decoder and describes truncated and damaged data in its errors.
package compression

import (
	"bufio"
	"compress/bzip2"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/text/encoding"
)

// maxWindow bounds the window of a compressed file, and so the memory of its decoder. zstd -d and xz -9 have the
// same bound.
const maxWindow = 128 << 20

// bufferSize is the size of a read buffer.
const bufferSize = 256 << 10

// buffers are reused, because a folder may have many thousand small files, each of which is opened twice.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}

// compressions are detected by their first bytes, whatever the file's name is.
var compressions = []struct {
	name   string
	magics []string
	open   func(*bufio.Reader) (io.Reader, func(), error)
}{
	{"gzip", []string{gzipMagic}, func(r *bufio.Reader) (io.Reader, func(), error) {
		z, err := newGzipMembers(r)
		return z, func() {}, err
	}},
	{"zstd", zstdMagics(), func(r *bufio.Reader) (io.Reader, func(), error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}},
	{"bzip2", []string{"BZh"}, func(r *bufio.Reader) (io.Reader, func(), error) {
		return bzip2.NewReader(r), func() {}, nil
	}},
	{"xz", []string{"\xfd7zXZ\x00"}, openXZ},
}

// zstdMagics returns the magic numbers of a zstd frame and of skippable frames (RFC 8878, section 3.1.2). pzstd
// starts each of its frames with a skippable one.
func zstdMagics() []string {
	magics := []string{"\x28\xb5\x2f\xfd"}
	for b := byte(0x50); b <= 0x5f; b++ {
		magics = append(magics, string(b)+"\x2a\x4d\x18")
	}
	return magics
}

// openXZ checks the dictionary size in the first block, because the decoder allocates the whole dictionary
// immediately.
func openXZ(r *bufio.Reader) (io.Reader, func(), error) {
	const streamHeader, blockMost = 12, 64
	head, _ := r.Peek(streamHeader + blockMost) // the decoder reports truncated data
	if len(head) > streamHeader && xzDictionary(head[streamHeader:]) > maxWindow {
		return nil, nil, fmt.Errorf("it needs a dictionary of more than %d MiB: compress it again with a smaller one",
			maxWindow>>20)
	}
	z, err := xz.NewReader(r)
	return z, func() {}, err
}

// xzDictionary returns the dictionary size in a block header, in bytes. A block header has its size, flags,
// optionally two sizes of the block, then the filter with its id, the size of its properties, and these. It returns 0
// for other data.
func xzDictionary(block []byte) int64 {
	const lzma2 = 0x21
	if len(block) < 2 || block[0] == 0 {
		return 0
	}
	flags, rest := block[1], block[2:]
	for _, sized := range []byte{0x40, 0x80} {
		if flags&sized == 0 {
			continue
		}
		_, n := binary.Uvarint(rest)
		if n <= 0 {
			return 0
		}
		rest = rest[n:]
	}
	if len(rest) < 3 || rest[0] != lzma2 {
		return 0
	}
	bits := rest[2] & 0x3f
	return (2 | int64(bits&1)) << (bits/2 + 11)
}

// extensions are the file name extensions of compressed data.
var extensions = []string{".gz", ".zst", ".zstd", ".bz2", ".xz"}

// NewReader returns a reader of the data of r, decompressed if it starts with the magic number of a compression. It
// returns an error if name has the extension of a compression and the data is not compressed. Closing the reader
// calls close, and NewReader does so if it returns an error.
func NewReader(name string, r io.Reader, close func() error) (*Reader, error) {
	raw, stored := buffers.Get().(*bufio.Reader), &storedReader{r: r}
	raw.Reset(stored)
	free := sync.OnceFunc(func() {
		raw.Reset(nil)
		buffers.Put(raw)
	})
	d, err := openDetected(name, raw, func() error {
		free()
		return close()
	})
	if err != nil {
		return nil, err
	}
	if members, ok := d.r.(*gzipMembers); ok {
		members.stored = stored
	}
	return d, nil
}

// NewRawReader returns a reader of the unchanged data of r.
func NewRawReader(r io.Reader, close func() error) *Reader { return &Reader{r: r, close: close} }

func openDetected(name string, raw *bufio.Reader, close func() error) (*Reader, error) {
	for _, c := range compressions {
		is, err := hasMagic(raw, c.magics)
		if err != nil {
			return nil, errors.Join(err, close())
		}
		if !is || c.name == "bzip2" && !isBzip2(raw) {
			continue
		}
		z, done, err := c.open(raw)
		if err != nil {
			return nil, errors.Join(DescribeError(c.name, err), close())
		}
		return &Reader{r: z, format: c.name, close: func() error { done(); return close() }}, nil
	}
	if ending := strings.ToLower(filepath.Ext(name)); slices.Contains(extensions, ending) {
		what := "it contains no compressed data, although its name ends in " + ending
		if _, err := raw.Peek(1); err == io.EOF {
			what = "it is empty: the compressed data is truncated"
		}
		return nil, errors.Join(errors.New(what), close())
	}
	return &Reader{r: raw, close: close}, nil
}

// TrimExtension removes the extension of a compression from a name, in lower case. It reports whether the name has one.
func TrimExtension(name string) (trunk string, ok bool) {
	ending := filepath.Ext(name)
	if !slices.Contains(extensions, ending) {
		return name, false
	}
	return strings.TrimSuffix(name, ending), true
}

// hasMagic reports whether the data starts with one of some magic numbers. It reads no more bytes of a pipe than
// necessary.
func hasMagic(r *bufio.Reader, magics []string) (bool, error) {
	for n := 1; ; n++ {
		head, err := r.Peek(n)
		if err != nil && err != io.EOF {
			return false, err
		}
		if slices.Contains(magics, string(head)) {
			return true, nil
		}
		if len(head) < n || !slices.ContainsFunc(magics, func(m string) bool { return strings.HasPrefix(m, string(head)) }) {
			return false, nil
		}
	}
}

// isBzip2 reports whether the level and the magic number of a block, or of the end, follow. Text may start with the
// same letters.
func isBzip2(r *bufio.Reader) bool {
	head, _ := r.Peek(10)
	return len(head) == 10 && head[3] >= '1' && head[3] <= '9' &&
		(string(head[4:]) == "1AY&SY" || string(head[4:]) == "\x17rE8P\x90")
}

// Reader reads the data of a file.
type Reader struct {
	r        io.Reader
	head     []byte // already read
	headErr  error  // error of r after head
	format   string // compression format, empty for none
	close    func() error
	onDamage func(err error, from, to int64)
}

// IsRaw reports whether Read returns the bytes of the file itself, neither decompressed nor decoded.
func (d *Reader) IsRaw() bool { return d.format == "" }

// OnDamage makes Read continue after damage of gzip data, at the next member. It calls f with the damage and with the
// range of offsets, from and to, of untrusted data that was already read. Without OnDamage, damage is an error.
func (d *Reader) OnDamage(f func(err error, from, to int64)) { d.onDamage = f }

// TrailingBytes returns how many bytes after the end of gzip data are not gzip data. It is valid at the end of the
// data.
func (d *Reader) TrailingBytes() int64 {
	switch r := d.r.(type) {
	case decodedReader:
		return r.source.TrailingBytes()
	case *gzipMembers:
		return r.trailing
	}
	return 0
}

func (d *Reader) Read(p []byte) (n int, err error) {
	defer func() {
		// Decoders of libraries panic on some damaged data.
		if v := recover(); v != nil {
			n, err = 0, DescribeError(d.format, fmt.Errorf("%v", v))
		}
	}()
	if len(d.head) > 0 {
		n = copy(p, d.head)
		d.head = d.head[n:]
		return n, nil
	}
	if err, d.headErr = d.headErr, nil; err == nil {
		n, err = d.r.Read(p)
	}
	for damage := (*damageError)(nil); d.onDamage != nil && errors.As(err, &damage); {
		members := d.r.(*gzipMembers) // the only reader that returns such errors
		d.onDamage(DescribeError(d.format, err), damage.from, members.offset)
		members.resumeAfterDamage()
		n, err = members.Read(p)
	}
	if err != nil && err != io.EOF && d.format != "" && !errors.Is(err, context.Canceled) {
		err = DescribeError(d.format, err)
	}
	return n, err
}

// Close releases the decoder.
func (d *Reader) Close() error { return d.close() }

// maxHead is how much Peek can return of compressed data.
const maxHead = 64 << 10

// Decode returns a reader that converts the text of d from encoding e to UTF-8.
func (d *Reader) Decode(e encoding.Encoding) *Reader {
	return &Reader{r: decodedReader{e.NewDecoder().Reader(d), d}, format: decodedFormat, close: d.Close}
}

// decodedReader reads the text of a file in another encoding than UTF-8.
type decodedReader struct {
	io.Reader
	source *Reader
}

// Peek returns the first bytes: at least n, or fewer if the data is shorter or an error follows. The next Read
// returns that error.
func (d *Reader) Peek(n int) []byte {
	if body, ok := d.r.(*bufio.Reader); ok {
		head, _ := body.Peek(n)
		return head
	}
	d.head = make([]byte, 0, maxHead)
	for len(d.head) < n && d.headErr == nil {
		d.fillHead()
	}
	return d.head
}

// fillHead appends data to head.
func (d *Reader) fillHead() {
	defer func() {
		if v := recover(); v != nil { // as in Read
			d.headErr = fmt.Errorf("%v", v)
		}
	}()
	var n int
	n, d.headErr = d.r.Read(d.head[len(d.head):cap(d.head)])
	d.head = d.head[:len(d.head)+n]
}

// decodedFormat marks decoded bytes, whose offsets differ from those of the file.
const decodedFormat = "decoded"

// DescribeError adds to a decoder's error the format and whether its data is truncated or damaged.
func DescribeError(format string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s data is truncated: %w", format, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s data is damaged: %w", format, err)
}
