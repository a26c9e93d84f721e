package jsonvalue

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// blockBytes is the maximum size of a block of several lines.
const blockBytes = 1 << 20

// LineReader splits a stream into blocks of complete lines. A block has the lines that were read together, so that
// the lines of a slow pipe are returned when they arrive.
type LineReader struct {
	r      *bufio.Reader
	limit  int64  // maximum bytes of a line
	lines  int64  // number of lines that were read
	offset int64  // offset after them
	long   []byte // buffer of long lines
}

// LineBlock is some consecutive lines.
type LineBlock struct {
	Data   []byte // with line terminators; the last line of a stream may have none
	Before int64  // number of lines before the block
	Offset int64  // offset of the block
	End    int64  // offset after it
	Limit  int64  // maximum bytes of a line
	Shared bool   // Data is a long line, valid until the next call of Next
}

// NewLineReader returns a reader of lines of at most limit bytes.
func NewLineReader(r io.Reader, limit int64) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, blockBytes), limit: limit}
}

// StartAt sets the position of the first byte: its offset in bytes, and the number of lines before it.
func (l *LineReader) StartAt(offset, lines int64) { l.offset, l.lines = offset, lines }

// Next returns the next lines, or io.EOF. It may use the memory of buffer. A *SizeError is the error of one line, and
// the next call returns the line after it. Any other error is final.
func (l *LineReader) Next(buffer []byte) (LineBlock, error) {
	b := LineBlock{Before: l.lines, Offset: l.offset, Limit: l.limit}
	l.lines++
	line, err := l.r.ReadSlice('\n')
	l.offset += int64(len(line))
	if err == bufio.ErrBufferFull {
		b.Data, err = l.readLong(line)
		b.End, b.Shared = l.offset, true
		return b, err
	}
	if b.End = l.offset; err != nil && (err != io.EOF || len(line) == 0) {
		return b, err
	}
	l.long = nil
	buffered, _ := l.r.Peek(l.r.Buffered()) // cannot fail
	more := buffered[:bytes.LastIndexByte(buffered, '\n')+1]
	b.Data = append(append(buffer[:0], line...), more...)
	l.lines += int64(bytes.Count(more, []byte("\n")))
	l.offset += int64(len(more))
	b.End = l.offset
	_, _ = l.r.Discard(len(more)) // cannot fail
	return b, nil
}

// readLong reads the rest of a line that is longer than the buffer of r.
func (l *LineReader) readLong(start []byte) ([]byte, error) {
	line, size := append(l.long[:0], start...), int64(len(start))
	var parts [][]byte // that line has no capacity for: growing it would copy it repeatedly
	for {
		part, err := l.r.ReadSlice('\n')
		l.offset += int64(len(part))
		size += int64(len(part))
		switch {
		case size > l.limit:
			parts, line = nil, nil
		case parts == nil && len(line)+len(part) <= cap(line):
			line = append(line, part...)
		default:
			parts = append(parts, bytes.Clone(part))
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		if l.long = line; size > l.limit {
			return nil, newLineError(l.limit)
		}
		if parts != nil {
			l.long = make([]byte, 0, size)
			for _, part := range append([][]byte{line}, parts...) {
				l.long = append(l.long, part...)
			}
		}
		return l.long, nil
	}
}

func newLineError(limit int64) error {
	return &SizeError{fmt.Sprintf("line is too long: more than %d bytes", limit)}
}

// Line is a line of a block.
type Line struct {
	Data   []byte // with the terminator
	Number int64  // from 1
	End    int64  // offset after the line
	Err    error  // *SizeError without Data, or nil
}

// Lines calls f with each line.
func (b LineBlock) Lines(f func(Line)) {
	line := Line{Number: b.Before, End: b.Offset}
	for data := range bytes.Lines(b.Data) {
		line.Data, line.Err = data, nil
		if int64(len(data)) > b.Limit {
			line.Data, line.Err = nil, newLineError(b.Limit)
		}
		line.Number++
		line.End += int64(len(data))
		f(line)
	}
}
