package jsonvalue

import (
	"bufio"
	"fmt"
	"io"
)

func newBufferedReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }

// LineReader reads lines of bounded length. A longer one is a *SizeError, and the next call returns the line after
// it.
type LineReader struct {
	r      *bufio.Reader
	limit  int64
	line   []byte
	parts  [][]byte // of a long line
	number int64    // number of the line, from 1
	offset int64    // offset after the line
}

// NewLineReader returns a reader of lines of at most limit bytes.
func NewLineReader(r io.Reader, limit int64) *LineReader {
	return &LineReader{r: newBufferedReader(r), limit: limit}
}

// StartAt sets the position of the first byte: its offset in bytes, and the number of lines before it.
func (l *LineReader) StartAt(offset, lines int64) { l.offset, l.number = offset, lines }

// Offset returns the offset after the last line that was read.
func (l *LineReader) Offset() int64 { return l.offset }

// LineNumber returns the number of the last line that was read, from 1.
func (l *LineReader) LineNumber() int64 { return l.number }

// Next returns a line including its terminator, valid until the next call, or io.EOF.
func (l *LineReader) Next() ([]byte, error) {
	if cap(l.line) > 2*partBytes && len(l.line) <= partBytes {
		l.line = nil // release the memory of a long line
	}
	l.line, l.parts = l.line[:0], nil
	l.number++
	long, some, size := false, false, int64(0)
	for {
		part, err := l.r.ReadSlice('\n')
		l.offset += int64(len(part))
		some = some || len(part) > 0
		size += int64(len(part))
		if long = long || size > l.limit; long {
			l.parts = nil
		} else {
			l.appendPart(part)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && !some:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		case long:
			l.line = nil
			return nil, &SizeError{fmt.Sprintf("line is too long: more than %d bytes", l.limit)}
		}
		return l.joinParts(size), nil
	}
}

// partBytes is the size of the parts in which a long line is collected. Growing it in place would copy it repeatedly.
const partBytes = 1 << 20

// appendPart appends to the line.
func (l *LineReader) appendPart(part []byte) {
	if len(l.line)+len(part) > max(partBytes, cap(l.line)) {
		l.parts = append(l.parts, l.line)
		l.line = make([]byte, 0, partBytes)
	}
	l.line = append(l.line, part...)
}

// joinParts returns a complete line of a size, valid until the next one. A next line of this size needs no parts.
func (l *LineReader) joinParts(size int64) []byte {
	if l.parts == nil {
		return l.line
	}
	line := make([]byte, 0, size)
	for _, part := range append(l.parts, l.line) {
		line = append(line, part...)
	}
	l.parts, l.line = nil, line
	return line
}
