package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// lengthsInput says where document lengths come from: a file of lines, a column of a Parquet file, or standard input.
type lengthsInput struct {
	column string
}

func (in *lengthsInput) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&in.column, "column", "", "`name` of the Parquet column that holds lengths, or lists whose lengths count")
}

// check finds what is wrong before anything is read.
func (in *lengthsInput) check(args []string) error {
	parquet := len(args) > 0 && isParquet(args[0])
	switch {
	case parquet && in.column == "":
		return fmt.Errorf("%s: want --column, the column that holds the lengths", args[0])
	case !parquet && in.column != "":
		return errors.New("--column: want a file that ends in .parquet")
	}
	return nil
}

// read reads the lengths of the file that args name, or of stdin, and says what it read.
func (in *lengthsInput) read(stdin io.Reader, args []string) (lengths []int32, name string, err error) {
	if len(args) == 0 || args[0] == "-" {
		name = "standard input"
		lengths, err = readLengths(stdin, name)
		return lengths, name, err
	}
	name = args[0]
	if isParquet(name) {
		if lengths, err = readParquetLengths(name, in.column); err != nil {
			return nil, "", fmt.Errorf("read lengths: %s: %w", name, err)
		}
		return lengths, fmt.Sprintf("%s, column %s", name, in.column), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("read lengths: %w", err)
	}
	defer f.Close()
	lengths, err = readLengths(f, name)
	return lengths, name, err
}

func isParquet(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".parquet") }

// wantLength is what a length must be.
var wantLength = fmt.Sprintf("want a length in tokens, 1 to %d", math.MaxInt32)

// readLengths reads one length of 1 to 2^31-1 a line. Spaces around it are fine.
func readLengths(in io.Reader, name string) ([]int32, error) {
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
