package corpus

import (
	"context"
	"io"
	"sync/atomic"

	"loaderd/internal/corpus/compression"
)

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
func (in *Input) openBytes(ctx context.Context, s source) (*compression.Reader, error) {
	if s.pipe {
		r, err := openWaiting(ctx, in.stdin, s.Origin)
		if err != nil {
			return nil, err
		}
		return compression.NewReader(s.Origin, counted{r, &in.read}, r.Close)
	}
	if s.object != nil {
		r, err := in.options.Stores.Open(ctx, *s.object, 0)
		if err != nil {
			return nil, err
		}
		return compression.NewReader(s.name(), counted{r, &in.read}, r.Close)
	}
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	if s.shard != nil && s.shard.Codec() == "" { // its first bytes are a number
		return compression.Uncompressed(counted{f, &in.read}, f.Close), nil
	}
	return compression.NewReader(s.Origin, counted{f, &in.read}, f.Close)
}
