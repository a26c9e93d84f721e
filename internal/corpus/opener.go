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
	options Options
	stdin   io.Reader
	read    *atomic.Int64 // counts bytes read from files
}

// newOpener returns an opener of files on disk or in stores that counts no bytes for an input.
func newOpener(o Options) opener { return opener{options: o, read: new(atomic.Int64)} }

func (in *Input) opener() opener { return opener{in.options, in.stdin, &in.read} }

// open returns the bytes of a file, decompressed. Text in UTF-16 with a byte order mark, or in Options.Encoding, is
// converted to UTF-8.
func (o opener) open(ctx context.Context, s source) (*compression.Reader, error) {
	d, err := o.bytes(ctx, s)
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

// counted counts the bytes read from a file, before decompression.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// bytes returns the decompressed bytes of a file.
func (o opener) bytes(ctx context.Context, s source) (*compression.Reader, error) {
	if s.pipe {
		r, err := pipe.Open(ctx, o.stdin, s.Origin)
		if err != nil {
			return nil, err
		}
		return compression.NewReader(s.Origin, counted{r, o.read}, r.Close)
	}
	if s.object != nil {
		r, err := o.options.Stores.Open(ctx, *s.object, 0)
		if err != nil {
			return nil, err
		}
		return compression.NewReader(s.name(), counted{r, o.read}, r.Close)
	}
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	if s.shard != nil && s.shard.Codec() == "" { // its first bytes are a number, not a signature
		return compression.Uncompressed(counted{f, o.read}, f.Close), nil
	}
	return compression.NewReader(s.Origin, counted{f, o.read}, f.Close)
}

// parquet opens a Parquet file on disk or in a store.
func (o opener) parquet(ctx context.Context, s source) (*columnfile.Parquet, error) {
	if s.object == nil {
		return columnfile.OpenParquet(s.Origin)
	}
	return columnfile.ReadParquet(o.options.Stores.At(ctx, *s.object), s.object.Size, func() error { return nil })
}
