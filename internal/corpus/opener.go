package corpus

import (
	"context"
	"io"
	"sync/atomic"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/pipe"
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
	if s.pipe {
		r, err := pipe.Open(ctx, o.stdin, s.Origin)
		if err != nil {
			return nil, err
		}
		return compression.NewReader(s.Origin, countingReader{r, o.read}, r.Close)
	}
	if s.object != nil {
		r, err := o.openObject(ctx, s)
		if err != nil {
			return nil, err
		}
		return compression.NewReader(s.name(), countingReader{r, o.read}, r.Close)
	}
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	if s.shard != nil && s.shard.Codec() == "" { // its first bytes are a number, not a signature
		return compression.NewRawReader(countingReader{f, o.read}, f.Close), nil
	}
	return compression.NewReader(s.Origin, countingReader{f, o.read}, f.Close)
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
