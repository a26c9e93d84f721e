package corpus

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"loaderd/internal/corpus/compression"
)

// lineFactor bounds a line by the largest document: JSON may write a byte as six (\u0000).
const lineFactor = 6

// recordLimit bounds what is read of one record.
func (o Options) recordLimit() int64 { return lineFactor*o.MaxDocument + 64<<10 }

// jsonl yields a document a line of body, which is what r has and what was looked at already. Blank lines are not
// documents. A line that is not one is a *SkipError with its number.
func (in *Input) jsonl(ctx context.Context, s source, r *compression.Reader, body io.Reader, yield yielder) bool {
	places := in.places(r)
	if places && s.object != nil && in.from.Offset > 0 {
		later, err := in.openAt(ctx, s)
		if err != nil {
			return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
		}
		defer later.Close() // nothing was written
		body = counted{later, &in.read}
	}
	lines := in.newLineReader(newLines(body))
	if places {
		entries := in.began.Entries
		lines.offset, lines.number = in.began.Offset, in.began.Line
		next := yield
		yield = func(d Document, err error) bool {
			entries++
			in.at = Place{entries, lines.offset, lines.number}
			return next(d, err)
		}
	}
	return in.eachLine(s, lines, yield)
}

// eachLine yields a document a line. Blank lines are not documents. Each line may begin with byte order marks, as
// where files were joined.
func (in *Input) eachLine(s source, lines *lineReader, yield yielder) bool {
	for {
		line, err := lines.next()
		if err == io.EOF {
			return true
		}
		number := lines.number
		if err != nil && !errors.Is(err, errLongLine) {
			return yield(Document{}, fmt.Errorf("read %s:%d: %w", s.origin, number, err)) && false
		}
		line = bytes.TrimLeft(line, "\ufeff")
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var d Document
		if err != nil {
			err = &badRecord{TooLarge, err}
		} else {
			d, err = in.options.parse(line)
		}
		if err != nil {
			if !s.skip(yield, number, err) {
				return false
			}
			continue
		}
		if !s.give(yield, d) {
			return false
		}
	}
}

var errLongLine = errors.New("line is too long")

func newLines(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }

// lineReader reads lines of bounded length. A longer one is an error, and the next call returns the line behind it.
type lineReader struct {
	r      *bufio.Reader
	limit  int64
	line   []byte
	parts  [][]byte // of a long line
	number int64    // of the line, from 1
	offset int64    // behind the line
}

func (in *Input) newLineReader(r *bufio.Reader) *lineReader {
	return &lineReader{r: r, limit: in.options.recordLimit()}
}

func (l *lineReader) next() ([]byte, error) {
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
			return nil, fmt.Errorf("%w: more than %d bytes", errLongLine, l.limit)
		}
		return l.whole(size), nil
	}
}

// partBytes is the size of the parts in which a long line is collected: a line that grew in place would be copied again
// and again.
const partBytes = 1 << 20

// add adds to the line.
func (l *lineReader) add(part []byte) {
	if len(l.line)+len(part) > max(partBytes, cap(l.line)) {
		l.parts = append(l.parts, l.line)
		l.line = make([]byte, 0, partBytes)
	}
	l.line = append(l.line, part...)
}

// whole returns a line of a size, which lasts until the next one. The next one may be as long without parts.
func (l *lineReader) whole(size int64) []byte {
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
