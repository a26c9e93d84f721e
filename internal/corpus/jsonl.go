package corpus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineFactor bounds a line by the largest document: JSON may write a byte as six (\u0000).
const lineFactor = 6

// recordLimit bounds what is read of one record.
func (o Options) recordLimit() int64 { return lineFactor*o.MaxDocument + 64<<10 }

// jsonl yields a document a line. Blank lines are not documents. A line that is not one is a *SkipError with its number.
func (in *Input) jsonl(s source, r io.Reader, yield yielder) bool {
	return in.eachLine(s, newLines(r), 0, yield, in.options.parse)
}

// eachLine yields a document a line behind the first header lines. Blank lines are not documents.
func (in *Input) eachLine(s source, r *bufio.Reader, header int64, yield yielder, parse func(line []byte) (Document, error)) bool {
	lines := lineReader{r: r, limit: in.options.recordLimit()}
	for number := int64(1); ; number++ {
		line, err := lines.next()
		if err == io.EOF {
			return true
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return yield(Document{}, fmt.Errorf("read %s:%d: %w", s.origin, number, err)) && false
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if number <= header || err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var d Document
		if err != nil {
			err = &badRecord{TooLarge, err}
		} else {
			d, err = parse(line)
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
	r     *bufio.Reader
	limit int64
	line  []byte
}

func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	long, some := false, false
	for {
		part, err := l.r.ReadSlice('\n')
		some = some || len(part) > 0
		if long = long || int64(len(l.line)+len(part)) > l.limit; !long {
			l.line = append(l.line, part...)
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
		return l.line, nil
	}
}
