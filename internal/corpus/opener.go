package corpus

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/pipe"
	"loaderd/internal/corpus/tokenids"
)

// opener opens files.
type opener struct {
	options  Options
	stdin    io.Reader
	read     *atomic.Int64 // counts bytes read from files
	headOnly bool          // reading continues elsewhere than after the beginning
}

// newOpener returns an opener of files on disk or in stores that counts no bytes for an input.
func newOpener(o Options) opener { return opener{options: o, read: new(atomic.Int64)} }

func (in *Input) opener() opener {
	return opener{in.options, in.stdin, &in.bytesRead, in.start != Position{}}
}

// open returns the bytes of a file, decompressed. Text in UTF-16 with a byte order mark, or in Options.Encoding, is
// converted to UTF-8.
func (o opener) open(ctx context.Context, s source) (*compression.Reader, error) {
	d, err := o.openRaw(ctx, s)
	if err != nil || s.shard != nil || o.options.Tokens || o.options.TokenType.Size > 0 {
		return d, err
	}
	look := len("\xff\xfe")
	if o.options.Encoding != "" {
		look = 512
	}
	if e := o.options.encodingOf(d.Peek(look)); e != nil {
		return d.Decode(e), nil
	}
	return d, nil
}

// countingReader counts the bytes read from a file, before decompression.
type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// openRaw returns the decompressed bytes of a file.
func (o opener) openRaw(ctx context.Context, s source) (*compression.Reader, error) {
	r, err := o.openStored(ctx, s)
	if err != nil {
		return nil, err
	}
	stored := countingReader{r, o.read}
	if s.shard != nil && s.shard.Codec() == "" { // its first bytes are a number, not a signature
		return compression.NewRawReader(stored, r.Close), nil
	}
	codec, size := shardCodec(s.name()), int64(-1)
	if s.shard != nil {
		codec, size = s.shard.Codec(), s.shard.Raw.Bytes
	}
	if !compression.HasMagic(codec) {
		return compression.NewUnsignedReader(codec, stored, size, r.Close)
	}
	return compression.NewReader(s.name(), stored, r.Close)
}

// openStored returns the bytes of a file as it is stored.
func (o opener) openStored(ctx context.Context, s source) (io.ReadCloser, error) {
	switch {
	case s.pipe:
		return pipe.Open(ctx, o.stdin, s.Origin)
	case s.object != nil:
		return o.openObject(ctx, s)
	}
	return s.open()
}

// openObject returns the bytes of an object. If only its beginning is needed to detect its format, the rest is not
// requested until it is read.
func (o opener) openObject(ctx context.Context, s source) (io.ReadCloser, error) {
	if promise, _ := formatOfName(s.name()); promise == Parquet || o.headOnly {
		return o.options.Stores.OpenHead(ctx, *s.object, headBytes)
	}
	return o.options.Stores.Open(ctx, *s.object, 0)
}

// openParquet opens a Parquet file on disk or in a store.
func (o opener) openParquet(ctx context.Context, s source) (*columnfile.ParquetFile, error) {
	if s.object == nil {
		return columnfile.OpenParquet(s.Origin)
	}
	r := o.options.Stores.ReaderAt(ctx, *s.object)
	return columnfile.NewParquetFile(r, s.object.Size, r.Close)
}

// openRandom opens a file on disk or in a store for reads at any offset.
func (o opener) openRandom(ctx context.Context, s source) (tokenids.RandomFile, error) {
	if s.object != nil {
		r := o.options.Stores.ReaderAt(ctx, *s.object)
		return tokenids.RandomFile{ReaderAt: r, Size: s.object.Size, Close: r.Close}, nil
	}
	f, err := s.open()
	if err != nil {
		return tokenids.RandomFile{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return tokenids.RandomFile{}, errors.Join(err, f.Close())
	}
	return tokenids.RandomFile{ReaderAt: f, Size: info.Size(), Close: f.Close}, nil
}
