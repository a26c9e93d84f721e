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

// windowMost bounds how far back a compressed file may refer, and so the memory of its decoder. zstd -d and xz -9 have
// the same bound.
const windowMost = 128 << 20

// bufferBytes is the size of a read.
const bufferBytes = 256 << 10

// buffers are reused: a folder may have many thousand small files, each of which is opened twice.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferBytes) }}

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
			zstd.WithDecoderMaxWindow(windowMost))
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

// zstdMagics begin a frame of zstd, or a skippable one (RFC 8878, section 3.1.2), with which pzstd begins each of its
// frames.
func zstdMagics() []string {
	magics := []string{"\x28\xb5\x2f\xfd"}
	for b := byte(0x50); b <= 0x5f; b++ {
		magics = append(magics, string(b)+"\x2a\x4d\x18")
	}
	return magics
}

// openXZ looks at the dictionary that the first block asks for: the decoder makes room for all of it at once.
func openXZ(r *bufio.Reader) (io.Reader, func(), error) {
	const streamHeader, blockMost = 12, 64
	head, _ := r.Peek(streamHeader + blockMost) // the decoder reports truncated data
	if len(head) > streamHeader && xzDictionary(head[streamHeader:]) > windowMost {
		return nil, nil, fmt.Errorf("it asks for a dictionary of more than %d MiB: compress it again with a smaller one",
			windowMost>>20)
	}
	z, err := xz.NewReader(r)
	return z, func() {}, err
}

// xzDictionary is how many bytes of dictionary a block's header asks for: its size, flags, perhaps two sizes of the
// block, then the filter with its number, the size of its properties, and these. 0 is for what is no such header.
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

// endings of names that promise compressed data.
var endings = []string{".gz", ".zst", ".zstd", ".bz2", ".xz"}

// NewReader returns a reader of the data of r, decompressed where its first bytes are those of a compression. It is an
// error where the ending of name promises a compression and the data has none. Closing the reader calls close; so does
// NewReader where it returns an error.
func NewReader(name string, r io.Reader, close func() error) (*Reader, error) {
	raw := buffers.Get().(*bufio.Reader)
	raw.Reset(r)
	free := sync.OnceFunc(func() {
		raw.Reset(nil)
		buffers.Put(raw)
	})
	return detect(name, raw, func() error {
		free()
		return close()
	})
}

// Uncompressed returns a reader of r as it is.
func Uncompressed(r io.Reader, close func() error) *Reader { return &Reader{r: r, close: close} }

func detect(name string, raw *bufio.Reader, close func() error) (*Reader, error) {
	for _, c := range compressions {
		is, err := begins(raw, c.magics)
		if err != nil {
			return nil, errors.Join(err, close())
		}
		if !is || c.name == "bzip2" && !isBzip2(raw) {
			continue
		}
		z, done, err := c.open(raw)
		if err != nil {
			return nil, errors.Join(Explain(c.name, err), close())
		}
		return &Reader{r: z, format: c.name, close: func() error { done(); return close() }}, nil
	}
	if ending := strings.ToLower(filepath.Ext(name)); slices.Contains(endings, ending) {
		what := "it holds no compressed data, though its name ends in " + ending
		if _, err := raw.Peek(1); err == io.EOF {
			what = "it is empty: the compressed data is truncated"
		}
		return nil, errors.Join(errors.New(what), close())
	}
	return &Reader{r: raw, close: close}, nil
}

// TrimEnding removes the ending of a name that promises compressed data, in lower case. It reports whether there is
// one.
func TrimEnding(name string) (trunk string, ok bool) {
	ending := filepath.Ext(name)
	if !slices.Contains(endings, ending) {
		return name, false
	}
	return strings.TrimSuffix(name, ending), true
}

// begins reports whether the data begins with one of some magics. It asks a pipe for no more bytes than it must.
func begins(r *bufio.Reader, magics []string) (bool, error) {
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

// isBzip2 reports whether the level and the mark of a block, or of the end, follow: text may begin with the same
// letters.
func isBzip2(r *bufio.Reader) bool {
	head, _ := r.Peek(10)
	return len(head) == 10 && head[3] >= '1' && head[3] <= '9' &&
		(string(head[4:]) == "1AY&SY" || string(head[4:]) == "\x17rE8P\x90")
}

// Reader reads the data of a file.
type Reader struct {
	r        io.Reader
	head     []byte // was read already
	failed   error  // of r, behind head
	format   string // of the compression, empty for none
	close    func() error
	onDamage func(err error, from, to int64)
}

// Direct reports whether Read returns the bytes of the file itself, neither decompressed nor decoded.
func (d *Reader) Direct() bool { return d.format == "" }

// OnDamage has Read continue behind damage of gzip data, at the next member, and call f with the damage and with the
// range of offsets of what was read, from and to, that cannot be trusted. Without it damage is an error.
func (d *Reader) OnDamage(f func(err error, from, to int64)) { d.onDamage = f }

// Trailing returns how many bytes behind the end of gzip data are not gzip data. It is known at the end of the data.
func (d *Reader) Trailing() int64 {
	switch r := d.r.(type) {
	case decodedReader:
		return r.of.Trailing()
	case *gzipMembers:
		return r.trailing
	}
	return 0
}

func (d *Reader) Read(p []byte) (n int, err error) {
	defer func() {
		// Decoders of libraries panic on some damaged data.
		if v := recover(); v != nil {
			n, err = 0, Explain(d.format, fmt.Errorf("%v", v))
		}
	}()
	if len(d.head) > 0 {
		n = copy(p, d.head)
		d.head = d.head[n:]
		return n, nil
	}
	if err, d.failed = d.failed, nil; err == nil {
		n, err = d.r.Read(p)
	}
	for damage := (*damageError)(nil); d.onDamage != nil && errors.As(err, &damage); {
		members := d.r.(*gzipMembers) // which alone has such errors
		d.onDamage(Explain(d.format, err), damage.from, members.offset)
		members.resume()
		n, err = members.Read(p)
	}
	if err != nil && err != io.EOF && d.format != "" && !errors.Is(err, context.Canceled) {
		err = Explain(d.format, err)
	}
	return n, err
}

func (d *Reader) Close() error { return d.close() }

// headBytes is how much Peek can return of compressed data.
const headBytes = 64 << 10

// Decode returns a reader of the text of d, which is in encoding e, in UTF-8.
func (d *Reader) Decode(e encoding.Encoding) *Reader {
	return &Reader{r: decodedReader{e.NewDecoder().Reader(d), d}, format: decodedFormat, close: d.Close}
}

// decodedReader reads the text of a file that is in another encoding than UTF-8.
type decodedReader struct {
	io.Reader
	of *Reader
}

// Peek returns the first bytes: n or more, or fewer where the data is shorter or an error follows, which the next Read
// returns.
func (d *Reader) Peek(n int) []byte {
	if body, ok := d.r.(*bufio.Reader); ok {
		head, _ := body.Peek(n)
		return head
	}
	d.head = make([]byte, 0, headBytes)
	for len(d.head) < n && d.failed == nil {
		d.more()
	}
	return d.head
}

// more reads more into head.
func (d *Reader) more() {
	defer func() {
		if v := recover(); v != nil { // as in Read
			d.failed = fmt.Errorf("%v", v)
		}
	}()
	var n int
	n, d.failed = d.r.Read(d.head[len(d.head):cap(d.head)])
	d.head = d.head[:len(d.head)+n]
}

// decodedFormat marks bytes that were decoded, whose offsets are not those of the file.
const decodedFormat = "decoded"

// Explain returns an error of a decoder with the format and whether its data is truncated or damaged.
func Explain(format string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s data is truncated: %w", format, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s data is damaged: %w", format, err)
}
