package corpus

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
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// windowMost bounds how far back a compressed file may refer, and so what its decoder keeps in memory. zstd -d and xz -9 have the same bound.
const windowMost = 128 << 20

// counted counts what is read from a file, before decompression.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// openBytes returns the decompressed bytes of a file.
func (in *Input) openBytes(ctx context.Context, s source) (*decompressed, error) {
	if s.pipe {
		r, err := openWaiting(ctx, in.stdin, s.origin)
		if err != nil {
			return nil, err
		}
		return decompress(s.origin, counted{r, &in.read}, r.Close)
	}
	if s.object != nil {
		r, err := in.options.Stores.Open(ctx, *s.object, 0)
		if err != nil {
			return nil, err
		}
		return decompress(s.name(), counted{r, &in.read}, r.Close)
	}
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	if s.shard != nil && s.shard.Codec() == "" { // its first bytes are a number
		return &decompressed{r: counted{f, &in.read}, close: f.Close}, nil
	}
	raw := buffers.Get().(*bufio.Reader)
	raw.Reset(counted{f, &in.read})
	free := sync.OnceFunc(func() {
		raw.Reset(nil)
		buffers.Put(raw)
	})
	return decompressBuffered(s.origin, raw, func() error {
		free()
		return f.Close()
	})
}

// bufferBytes is how much is read at a time.
const bufferBytes = 256 << 10

// buffers are used again: a folder may have many thousand small files, each of which is opened twice.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferBytes) }}

// A compression is told by its first bytes, whatever the file's name is.
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
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowMost))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}},
	{"bzip2", []string{"BZh"}, func(r *bufio.Reader) (io.Reader, func(), error) { return bzip2.NewReader(r), func() {}, nil }},
	{"xz", []string{"\xfd7zXZ\x00"}, openXZ},
}

// zstdMagics begin a frame of zstd, or a skippable one (RFC 8878, section 3.1.2), with which pzstd begins each of its frames.
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
	head, _ := r.Peek(streamHeader + blockMost) // what is cut off, the decoder says
	if len(head) > streamHeader && xzDictionary(head[streamHeader:]) > windowMost {
		return nil, nil, fmt.Errorf("it asks for a dictionary of more than %d MiB: compress it again with a smaller one", windowMost>>20)
	}
	z, err := xz.NewReader(r)
	return z, func() {}, err
}

// xzDictionary is how many bytes of dictionary a block's header asks for: its size, flags, perhaps two sizes of the block, then the filter
// with its number, the size of its properties, and these. 0 is for what is no such header.
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

// compressedNames are the endings of names that promise compressed data.
var compressedNames = []string{".gz", ".zst", ".zstd", ".bz2", ".xz"}

// decompress returns what lies behind r, whose compression is told by its first bytes. A name that promises one is to hold one.
func decompress(name string, r io.Reader, close func() error) (*decompressed, error) {
	return decompressBuffered(name, bufio.NewReaderSize(r, bufferBytes), close)
}

func decompressBuffered(name string, raw *bufio.Reader, close func() error) (*decompressed, error) {
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
			return nil, errors.Join(broken(c.name, err), close())
		}
		return &decompressed{r: z, format: c.name, close: func() error { done(); return close() }}, nil
	}
	if ending := strings.ToLower(filepath.Ext(name)); slices.Contains(compressedNames, ending) {
		what := "it holds no compressed data, though its name ends in " + ending
		if _, err := raw.Peek(1); err == io.EOF {
			what = "it is empty: the compressed data is truncated"
		}
		return nil, errors.Join(errors.New(what), close())
	}
	return &decompressed{r: raw, close: close}, nil
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

// isBzip2 says whether the level and the mark of a block, or of the end, follow: text may begin with the letters.
func isBzip2(r *bufio.Reader) bool {
	head, _ := r.Peek(10)
	return len(head) == 10 && head[3] >= '1' && head[3] <= '9' && (string(head[4:]) == "1AY&SY" || string(head[4:]) == "\x17rE8P\x90")
}

// decompressed reads what a file holds.
type decompressed struct {
	r      io.Reader
	head   []byte // was read already
	failed error  // of r, behind head
	format string // of the compression, empty for none
	close  func() error
	// onDamage is called with damage of gzip data, behind which the reading continues with the next member, and with the range of offsets that cannot be
	// trusted. Nil: damage is an error.
	onDamage func(err error, from, to int64)
}

// end yields what was left out of a file that is read to its end.
func (d *decompressed) end(s source, yield yielder) bool {
	if text, ok := d.r.(decodedReader); ok {
		return text.of.end(s, yield)
	}
	if members, ok := d.r.(*gzipMembers); ok && members.trailing > 0 {
		err := fmt.Errorf("%d bytes behind the end of the gzip data are not gzip data", members.trailing)
		return yield(Document{}, &SkipError{Reason: Trailing, Path: s.path, Err: err})
	}
	return true
}

func (d *decompressed) Read(p []byte) (n int, err error) {
	defer func() {
		// The decoders of others panic on some damaged data.
		if v := recover(); v != nil {
			n, err = 0, broken(d.format, fmt.Errorf("%v", v))
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
		d.onDamage(broken(d.format, err), damage.from, members.offset)
		members.resume()
		n, err = members.Read(p)
	}
	if err != nil && err != io.EOF && d.format != "" && !errors.Is(err, context.Canceled) {
		err = broken(d.format, err)
	}
	return n, err
}

func (d *decompressed) Close() error { return d.close() }

// broken explains an error of a decompressor.
func broken(format string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s data is truncated: %w", format, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s data is damaged: %w", format, err)
}
