package compression

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
)

// unsigned are the compressions without a magic number.
var unsigned = []string{"br", "snappy"}

// HasMagic reports whether NewReader detects a compression. The others are read by NewUnsignedReader.
func HasMagic(name string) bool { return !slices.Contains(unsigned, name) }

// Unsigned returns the names of the compressions that NewUnsignedReader reads.
func Unsigned() []string { return slices.Clone(unsigned) }

// maxSnappyRatio is more than the ratio of snappy, which copies at most 64 bytes for two.
const maxSnappyRatio = 64

// NewUnsignedReader returns a reader of data that is compressed by br or snappy. size is its decompressed size in bytes
// if it is known, else negative. Snappy is decompressed in memory as a whole. Closing the reader calls close, and
// NewUnsignedReader does so if it returns an error.
func NewUnsignedReader(name string, r io.Reader, size int64, close func() error) (*Reader, error) {
	if name == "br" {
		return &Reader{r: brotli.NewReader(bufio.NewReaderSize(r, bufferSize)), format: name, close: close}, nil
	}
	packed, err := io.ReadAll(r)
	if err != nil {
		return nil, errors.Join(err, close())
	}
	n, err := snappy.DecodedLen(packed)
	switch {
	case err != nil:
	case size >= 0 && int64(n) != size:
		err = fmt.Errorf("it decompresses to %d bytes, its index states %d", n, size)
	case n > maxSnappyRatio*len(packed):
		err = fmt.Errorf("it has %d bytes and states that it decompresses to %d", len(packed), n)
	}
	var data []byte
	if err == nil {
		data, err = snappy.Decode(nil, packed)
	}
	if err != nil {
		return nil, errors.Join(DescribeError(name, err), close())
	}
	return &Reader{r: bytes.NewReader(data), format: name, close: close}, nil
}
