package compression

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
)

// Snappy is the name of the compression that is decompressed as a whole.
const Snappy = "snappy"

// unsigned are the compressions without a magic number.
var unsigned = []string{"br", Snappy}

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
	data, err := decodeSnappy(r, size)
	if err != nil {
		return nil, errors.Join(DescribeError(name, err), close())
	}
	return &Reader{r: bytes.NewReader(data), format: name, close: close}, nil
}

// decodeSnappy decompresses a block of snappy. It reads at most the longest block of the size that the block states.
func decodeSnappy(r io.Reader, size int64) ([]byte, error) {
	buffered := bufio.NewReader(r)
	head, err := buffered.Peek(binary.MaxVarintLen32)
	if err != nil && err != io.EOF {
		return nil, err
	}
	n, err := snappy.DecodedLen(head)
	if err != nil {
		return nil, err
	}
	if size >= 0 && int64(n) != size {
		return nil, fmt.Errorf("it decompresses to %d bytes, its index states %d", n, size)
	}
	longest := int64(n) + int64(n)/6 + 32
	packed, err := io.ReadAll(io.LimitReader(buffered, longest+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(packed)) > longest:
		return nil, fmt.Errorf("it has more than %d bytes and states that it decompresses to %d", longest, n)
	case n > maxSnappyRatio*len(packed):
		return nil, fmt.Errorf("it has %d bytes and states that it decompresses to %d", len(packed), n)
	}
	return snappy.Decode(nil, packed)
}
