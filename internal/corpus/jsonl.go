package corpus

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// lineFactor bounds a line by the largest document: JSON may write a byte as six (\u0000).
const lineFactor = 6

// jsonl yields a document a line. Blank lines are not documents. A line that is not one is a *SkipError with its number.
func (in *Input) jsonl(s source, yield func(Document, error) bool) (more bool) {
	r, err := in.open(s)
	if err != nil {
		yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err))
		return false
	}
	defer func() {
		if err := r.Close(); err != nil && more {
			more = yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
		}
	}()
	lines := lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: lineFactor*in.options.MaxDocument + 64<<10}
	for number := int64(1); ; number++ {
		line, err := lines.next()
		if err == io.EOF {
			return true
		}
		if err != nil && !errors.Is(err, errLongLine) {
			yield(Document{}, fmt.Errorf("read %s:%d: %w", s.origin, number, err))
			return false
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		reason := TooLarge
		var d Document
		if err == nil {
			d, reason, err = in.options.parse(line)
		}
		if err != nil {
			if !yield(Document{}, &SkipError{Reason: reason, Path: s.path, Origin: s.origin, Line: number, Err: err}) {
				return false
			}
			continue
		}
		d.Path, d.Origin = s.path, s.origin
		if !yield(d, nil) {
			return false
		}
	}
}

// parse reads one line.
func (o Options) parse(line []byte) (Document, Reason, error) {
	if !utf8.Valid(line) {
		return Document{}, BadRecord, errors.New("not valid UTF-8")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return Document{}, BadRecord, fmt.Errorf("not a JSON object: %w", err)
	}
	raw, ok := fields[o.TextField]
	if !ok {
		return Document{}, BadRecord, fmt.Errorf("no field %q; it has %s", o.TextField, keys(fields))
	}
	var d Document
	var err error
	if o.Tokens {
		d.Data, err = tokens(raw)
	} else {
		d.Data, err = text(raw)
	}
	if err != nil {
		return Document{}, BadRecord, fmt.Errorf("field %q: %w", o.TextField, err)
	}
	if int64(len(d.Data)) > o.MaxDocument {
		return Document{}, TooLarge, fmt.Errorf("document has %d bytes, more than %d", len(d.Data), o.MaxDocument)
	}
	if o.IDField == "" {
		return d, "", nil
	}
	if raw, ok = fields[o.IDField]; !ok {
		return Document{}, BadRecord, fmt.Errorf("no field %q; it has %s", o.IDField, keys(fields))
	}
	if d.ID, err = id(raw); err != nil {
		return Document{}, BadRecord, fmt.Errorf("field %q: %w", o.IDField, err)
	}
	return d, "", nil
}

func text(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, errors.New("not a string")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	return []byte(s), nil
}

func tokens(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, errors.New("not a list of token ids")
	}
	var ids []*int64
	if err := json.Unmarshal(raw, &ids); err != nil {
		return nil, err
	}
	b := make([]byte, 0, 4*len(ids))
	for i, id := range ids {
		if id == nil {
			return nil, fmt.Errorf("token %d is null", i)
		}
		var err error
		if b, err = appendToken(b, *id); err != nil {
			return nil, fmt.Errorf("token %d: %w", i, err)
		}
	}
	return b, nil
}

func appendToken(b []byte, id int64) ([]byte, error) {
	if id < 0 || id > math.MaxInt32 {
		return nil, fmt.Errorf("id %d does not fit 31 bits", id)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(id)), nil
}

// id accepts strings and numbers, as they are written.
func id(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'):
		return string(raw), nil
	}
	return "", errors.New("neither a string nor a number")
}

func keys(fields map[string]json.RawMessage) string {
	names := make([]string, 0, len(fields))
	for k := range fields {
		names = append(names, k)
	}
	return list(names)
}

var errLongLine = errors.New("line is too long")

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
