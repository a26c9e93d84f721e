// Package lengthsin reads document lengths from lines, a column of a Parquet file, or a document stream.
package lengthsin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

// IsParquet reports whether the name of a file is that of a Parquet file.
func IsParquet(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".parquet") }

// ReadFile reads the lengths of a file of lines, or of a column of a Parquet file. read describes the input.
func ReadFile(name, column string) (lengths []int32, read string, err error) {
	if IsParquet(name) {
		if lengths, err = readParquet(name, column); err != nil {
			return nil, "", fmt.Errorf("read lengths: %s: %w", name, err)
		}
		return lengths, fmt.Sprintf("%s, column %s", name, column), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("read lengths: %w", err)
	}
	defer f.Close()
	lengths, err = Read(f, name)
	return lengths, name, err
}

// wantLength describes a valid length.
var wantLength = fmt.Sprintf("want a length in tokens, 1 to %d", math.MaxInt32)

// Read reads one length of 1 to 2^31-1 per line. Spaces around it are permitted. Errors contain name and the line
// number.
func Read(in io.Reader, name string) ([]int32, error) {
	var out []int32
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) == 0 && err == io.EOF {
			return out, nil
		}
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && err != io.EOF && !tooLong {
			return nil, fmt.Errorf("read lengths: %s: %w", name, err)
		}
		n, ok := parseLength(line)
		if !ok || tooLong {
			return nil, fmt.Errorf("read lengths: %s:%d: %.40q: %s", name, len(out)+1, bytes.TrimRight(line, "\r\n"), wantLength)
		}
		out = append(out, n)
	}
}

func parseLength(line []byte) (int32, bool) {
	line = bytes.TrimSpace(line)
	var n int64
	for _, c := range line {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > math.MaxInt32 {
			return 0, false
		}
	}
	return int32(n), n > 0
}
