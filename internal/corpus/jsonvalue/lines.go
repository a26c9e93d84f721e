package jsonvalue

import (
	"bufio"
	"fmt"
	"io"
)

func buffered(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }

// LineReader reads lines of bounded length. A longer one is a *SizeError, and the next call returns the line behind it.
type LineReader struct {
	r      *bufio.Reader
	limit  int64
	line   []byte
	parts  [][]byte // of a long line
	number int64    // of the line, from 1
	offset int64    // behind the line
}

// NewLineReader returns a reader of lines of at most limit bytes.
func NewLineReader(r io.Reader, limit int64) *LineReader {
	return &LineReader{r: buffered(r), limit: limit}
}

// StartAt sets the place of the first byte: its offset in bytes, and the number of lines before it.
func (l *LineReader) StartAt(offset, lines int64) { l.offset, l.number = offset, lines }

// Offset returns the offset behind the last line that was read.
func (l *LineReader) Offset() int64 { return l.offset }

// Number returns the number of the last line that was read, from 1.
func (l *LineReader) Number() int64 { return l.number }

// Next returns a line with its end, valid until the next call, or io.EOF.
func (l *LineReader) Next() ([]byte, error) {
	if cap(l.line) > 2*partBytes && len(l.line) <= partBytes {
		l.line = nil // long lines are over
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
			l.add(part)
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
		return l.whole(size), nil
	}
}

// partBytes is the size of the parts in which a long line is collected: a line that grew in place would be copied again
// and again.
const partBytes = 1 << 20

// add adds to the line.
func (l *LineReader) add(part []byte) {
	if len(l.line)+len(part) > max(partBytes, cap(l.line)) {
		l.parts = append(l.parts, l.line)
		l.line = make([]byte, 0, partBytes)
	}
	l.line = append(l.line, part...)
}

// whole returns a line of a size, which lasts until the next one. The next one may be as long without parts.
func (l *LineReader) whole(size int64) []byte {
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
