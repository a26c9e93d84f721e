package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// values yields a document an element of one array, or a document each of the objects that follow each other. Lines say nothing.
func (in *Input) values(s source, r io.Reader, yield yielder) bool {
	v := valueReader{r: newLines(r), limit: in.options.recordLimit(), array: true}
	for {
		raw, line, err := v.next()
		if err == io.EOF {
			return true
		}
		var bad *badRecord
		if err != nil && !errors.As(err, &bad) {
			return yield(Document{}, fmt.Errorf("read %s:%d: %w", s.origin, line, err)) && false
		}
		var d Document
		if err == nil {
			d, err = in.options.parse(raw)
			line += syntaxLine(raw, err)
		}
		if err != nil {
			if !s.skip(yield, line, err) {
				return false
			}
			continue
		}
		if !s.give(yield, d) {
			return false
		}
	}
}

// syntaxLine is how many lines below its first a value goes wrong.
func syntaxLine(raw []byte, err error) int64 {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return 0
	}
	return int64(bytes.Count(raw[:max(0, min(syntax.Offset-1, int64(len(raw))))], []byte("\n")))
}

// valueReader cuts JSON into values without reading what is in them: the elements of an array, where the first thing is one and array says
// that it may be, else the values that follow each other. Whether a value is valid is for others to say.
type valueReader struct {
	r     *bufio.Reader
	limit int64 // bytes of a value
	array bool

	began, in bool // the first byte was seen; inside of the array
	some      bool // the array has an element
	line      int64
	opened    int64 // line of the array
	value     []byte
	over      bool // the value is longer than limit

	// name gets the names of an object's fields, those longer than limit left out, and says whether to read on; then values are not kept. nil: they are.
	name func(string) bool
}

// errEnough says that valueReader.name wants no more names.
var errEnough = errors.New("no more names are wanted")

// next returns a value and the line of its first byte, or io.EOF. A *badRecord is a value that is too large, behind which it goes on; any other
// error is where the rest can not be understood.
func (v *valueReader) next() (raw []byte, line int64, err error) {
	c, err := v.start()
	if err != nil {
		return nil, v.line, err
	}
	v.value, v.over = v.value[:0], false
	line = v.line
	if err := v.read(c); err != nil {
		return nil, line, err
	}
	if v.over {
		return nil, line, &badRecord{TooLarge, fmt.Errorf("a value of more than %d bytes", v.limit)}
	}
	return v.value, line, nil
}

// start reads up to the first byte of the next value and returns it.
func (v *valueReader) start() (byte, error) {
	c, err := v.space()
	if !v.began {
		v.began = true
		if err == nil && c == '[' && v.array {
			v.in, v.opened = true, v.line
			c, err = v.space()
		}
	}
	if !v.in {
		if err == nil && (c == ']' || c == '}' || c == ',' || c == ':') {
			err = fmt.Errorf("unexpected %q behind the last value", c)
		}
		return c, err
	}
	if err == nil && v.some && c == ',' {
		if c, err = v.space(); err == nil && c == ']' {
			return 0, errors.New("unexpected ']' behind a comma")
		}
	} else if err == nil && v.some && c != ']' {
		return 0, fmt.Errorf("unexpected %q behind an element: want a comma or ]", c)
	}
	switch {
	case err == io.EOF:
		return 0, fmt.Errorf("the list that begins in line %d is not closed: the file is cut off", v.opened)
	case err != nil:
		return 0, err
	case c == ']':
		return 0, v.close()
	case c == '}' || c == ',' || c == ':':
		return 0, fmt.Errorf("unexpected %q", c)
	}
	v.some = true
	return c, nil
}

// close reads what is behind the array: nothing.
func (v *valueReader) close() error {
	c, err := v.space()
	if err == nil {
		err = fmt.Errorf("unexpected %q behind the list", c)
	}
	return err
}

// read reads a value that begins with c into v.value.
func (v *valueReader) read(c byte) error {
	began, depth := v.line, 0
	object := v.name != nil && c == '{'
	named := object // the next string of depth 1 is a name
	for {
		v.keep(c)
		switch c {
		case ',':
			named = named || object && depth == 1
		case '"':
			if named && depth == 1 {
				v.value, v.over = append(v.value[:0], c), false
			}
			if err := v.text(); err != nil {
				return err
			}
			if named && depth == 1 {
				var name string
				if named = false; !v.over && json.Unmarshal(v.value, &name) == nil && !v.name(name) {
					return errEnough
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 && (c == '"' || c == '}' || c == ']') {
			return nil
		}
		next, err := v.r.ReadByte()
		switch {
		case err == io.EOF && depth == 0:
			return nil
		case err == io.EOF:
			return fmt.Errorf("a bracket of the value that begins in line %d is not closed: the file is cut off, or the bracket is missing", began)
		case err != nil:
			return err
		case depth == 0 && bytes.IndexByte([]byte(" \t\r\n,]}[{\""), next) >= 0:
			return v.r.UnreadByte() // behind a number or a literal
		}
		if next == '\n' {
			v.line++
		}
		c = next
	}
}

// text reads the rest of a string.
func (v *valueReader) text() error {
	for began, escaped := v.line, false; ; {
		c, err := v.r.ReadByte()
		if err == io.EOF {
			return fmt.Errorf("the string that begins in line %d is not closed", began)
		}
		if err != nil {
			return err
		}
		v.keep(c)
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			return nil
		}
		if c == '\n' {
			v.line++
		}
	}
}

func (v *valueReader) keep(c byte) {
	if v.over = v.over || int64(len(v.value)) >= v.limit; !v.over {
		v.value = append(v.value, c)
	}
}

// space returns the first byte that is no space, and counts lines.
func (v *valueReader) space() (byte, error) {
	if v.line == 0 {
		v.line = 1
	}
	for {
		c, err := v.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			v.line++
		case ' ', '\t', '\r':
		case "\ufeff"[0]:
			if rest, _ := v.r.Peek(2); string(rest) != "\ufeff"[1:] {
				return c, nil
			}
			_, _ = v.r.Discard(2) // a byte order mark
		default:
			return c, nil
		}
	}
}
