package corpus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
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

// open returns the decompressed bytes of a file.
func (in *Input) open(s source) (io.ReadCloser, error) {
	if in.stdin != nil {
		return io.NopCloser(counted{in.stdin, &in.read}), nil
	}
	f, err := os.Open(s.origin)
	if err != nil {
		return nil, err
	}
	raw := bufio.NewReaderSize(counted{f, &in.read}, 256<<10)
	name := strings.ToLower(s.origin)
	switch {
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, errors.Join(broken("gzip", err), f.Close())
		}
		return &decompressed{z, "gzip", func() error { return errors.Join(z.Close(), f.Close()) }}, nil
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, errors.Join(broken("zstd", err), f.Close())
		}
		return &decompressed{z, "zstd", func() error { z.Close(); return f.Close() }}, nil
	}
	return &decompressed{raw, "", f.Close}, nil
}

type decompressed struct {
	r      io.Reader
	format string
	close  func() error
}

func (d *decompressed) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err != nil && err != io.EOF && d.format != "" {
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
