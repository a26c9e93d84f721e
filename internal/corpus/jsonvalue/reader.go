package jsonvalue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Reader splits JSON into values without validating them. The values are the elements of an array, if the data starts
// with one and arrays are permitted, otherwise concatenated values.
type Reader struct {
	r     *bufio.Reader
	limit int64 // maximum bytes of a value
	array bool

	hasStarted, inArray bool // the first byte was read; inside the array
	hasElement          bool // the array has an element
	line                int64
	arrayLine           int64 // line on which the array starts
	value               []byte
	isOversized         bool // the value exceeds limit

	// onName is called with the names of an object's fields, apart from those longer than limit, and returns whether to
	// continue. Values are then not kept. If nil, they are kept.
	onName func(string) bool
}

// NewReader returns a reader of values of at most limit bytes. array permits an array of values.
func NewReader(r io.Reader, limit int64, array bool) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), limit: limit, array: array}
}

// SizeError is a line or a value that exceeds the limit of its reader, which continues after it.
type SizeError struct{ message string }

func (e *SizeError) Error() string { return e.message }

// EachName calls f with the names of the fields of the next value, an object, until f returns false. It skips names
// longer than the limit. It reads a value of any size in bounded memory. Its error is one of Next.
func (v *Reader) EachName(f func(name string) bool) error {
	v.onName = f
	defer func() { v.onName = nil }()
	_, _, err := v.Next()
	if err == errStop {
		return nil
	}
	return err
}

// errStop is returned after Reader.name has returned false.
var errStop = errors.New("no further names are needed")

// Next returns a value, valid until the next call, and the line of its first byte, from 1, or io.EOF. After a
// *SizeError it continues with the next value. After any other error nothing more can be read.
func (v *Reader) Next() (raw []byte, line int64, err error) {
	c, err := v.startValue()
	if err != nil {
		return nil, v.line, err
	}
	v.value, v.isOversized = v.value[:0], false
	line = v.line
	if err := v.readValue(c); err != nil {
		return nil, line, err
	}
	if v.isOversized {
		return nil, line, &SizeError{fmt.Sprintf("a value has more than %d bytes", v.limit)}
	}
	return v.value, line, nil
}

// startValue reads up to the first byte of the next value and returns it.
func (v *Reader) startValue() (byte, error) {
	c, err := v.skipSpace()
	if !v.hasStarted {
		v.hasStarted = true
		if err == nil && c == '[' && v.array {
			v.inArray, v.arrayLine = true, v.line
			c, err = v.skipSpace()
		}
	}
	if !v.inArray {
		if err == nil && (c == ']' || c == '}' || c == ',' || c == ':') {
			err = fmt.Errorf("unexpected %q after the last value", c)
		}
		return c, err
	}
	if err == nil && v.hasElement && c == ',' {
		if c, err = v.skipSpace(); err == nil && c == ']' {
			return 0, errors.New("unexpected ']' behind a comma")
		}
	} else if err == nil && v.hasElement && c != ']' {
		return 0, fmt.Errorf("unexpected %q after an element: want a comma or ]", c)
	}
	switch {
	case err == io.EOF:
		return 0, fmt.Errorf("the list that begins in line %d is not closed: the file is cut off", v.arrayLine)
	case err != nil:
		return 0, err
	case c == ']':
		return 0, v.checkArrayEnd()
	case c == '}' || c == ',' || c == ':':
		return 0, fmt.Errorf("unexpected %q", c)
	}
	v.hasElement = true
	return c, nil
}

// checkArrayEnd checks that nothing follows the array.
func (v *Reader) checkArrayEnd() error {
	c, err := v.skipSpace()
	if err == nil {
		err = fmt.Errorf("unexpected %q after the list", c)
	}
	return err
}

// readValue reads a value that starts with c into v.value.
func (v *Reader) readValue(c byte) error {
	began, depth := v.line, 0
	object := v.onName != nil && c == '{'
	named := object // the next string of depth 1 is a name
	for {
		v.appendByte(c)
		switch c {
		case ',':
			named = named || object && depth == 1
		case '"':
			if named && depth == 1 {
				v.value, v.isOversized = append(v.value[:0], c), false
			}
			if err := v.readString(); err != nil {
				return err
			}
			if named && depth == 1 {
				var name string
				if named = false; !v.isOversized && json.Unmarshal(v.value, &name) == nil && !v.onName(name) {
					return errStop
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
			return fmt.Errorf("a bracket of the value that begins in line %d is not closed: "+
				"the file is cut off, or the bracket is missing", began)
		case err != nil:
			return err
		case depth == 0 && bytes.IndexByte([]byte(" \t\r\n,]}[{\""), next) >= 0:
			return v.r.UnreadByte() // after a number or a literal
		}
		if next == '\n' {
			v.line++
		}
		c = next
	}
}

// readString reads the rest of a string.
func (v *Reader) readString() error {
	for began, escaped := v.line, false; ; {
		c, err := v.r.ReadByte()
		if err == io.EOF {
			return fmt.Errorf("the string that begins in line %d is not closed", began)
		}
		if err != nil {
			return err
		}
		v.appendByte(c)
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

func (v *Reader) appendByte(c byte) {
	if v.isOversized = v.isOversized || int64(len(v.value)) >= v.limit; !v.isOversized {
		v.value = append(v.value, c)
	}
}

// skipSpace returns the first byte that is not space, and counts lines.
func (v *Reader) skipSpace() (byte, error) {
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
