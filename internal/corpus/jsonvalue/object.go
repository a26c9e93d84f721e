// Package jsonvalue reads JSON without decoding unneeded parts: objects as lists of fields, lists element by element,
// and streams as lines or values of bounded size. It accepts NaN, Infinity and -Infinity.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is the list of a JSON object's fields in order. Values are views of the bytes from which it was read.
type Object []Field

// Field is a field of an object.
type Field struct {
	Name  string
	Value []byte // without surrounding space
}

// Value returns the value of a field, nil if it is missing. Of fields with equal names it is the last.
func (o Object) Value(name string) []byte {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].Name == name {
			return o[i].Value
		}
	}
	return nil
}

// Names returns the names of the fields, each once; not nil.
func (o Object) Names() []string {
	names := make([]string, 0, len(o))
	seen := make(map[string]bool, len(o))
	for _, f := range o {
		if !seen[f.Name] {
			seen[f.Name] = true
			names = append(names, f.Name)
		}
	}
	return names
}

// ReadObject reads a JSON object in one pass, and copies no value. NaN, Infinity and -Infinity, which some JSON
// writers emit as numbers, are replaced in raw by empty objects, which are invalid as a value. An error is one of
// encoding/json.
func ReadObject(raw []byte) (Object, error) {
	o, _, err := ReadObjectText(raw, "")
	return o, err
}

// ReadObjectText is ReadObject that also returns the text of the field with a name, if that is a string, in memory of
// its own. raw must be valid UTF-8. The text is nil where only Unquote returns it; without a name it is always nil.
func ReadObjectText(raw []byte, name string) (o Object, text []byte, err error) {
	if o, text, ok := scanCommonObject(raw, name); ok {
		return o, text, nil
	}
	o, err = readAnyObject(raw)
	return o, nil, err
}

// readAnyObject reads an object that may be uncommon.
func readAnyObject(raw []byte) (Object, error) {
	o, err := scanObject(raw)
	if err != nil && err != errManyFields && replaceInfinities(raw) {
		o, err = scanObject(raw)
	}
	if err == nil || err == errManyFields {
		return o, err
	}
	var fields map[string]json.RawMessage
	if worded := json.Unmarshal(raw, &fields); worded != nil {
		err = worded
	}
	return nil, err
}

// maxFields bounds the fields of an object, because each uses ten times the memory of an empty one in a file.
const maxFields = 1 << 16

var errManyFields = fmt.Errorf("an object has more than %d fields", maxFields)

func scanObject(raw []byte) (o Object, err error) {
	d := getDecoder(raw)
	defer d.putBack()
	switch first, err := d.ReadToken(); {
	case err != nil:
		return nil, err
	case first.Kind() == 'n':
		return nil, d.checkEnd() // null has no fields
	case first.Kind() != '{':
		return nil, errors.New("not an object")
	}
	o = make(Object, 0, 8)
	for d.PeekKind() != '}' {
		if len(o) == maxFields {
			return nil, errManyFields
		}
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		f := Field{Name: name.String()}
		if f.Value, err = d.ReadValue(); err != nil {
			return nil, err
		}
		o = append(o, f)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	return o, d.checkEnd()
}

// EachElement calls f with every element of a JSON list, until it returns an error. Data after the list is an error.
func EachElement(list []byte, f func(element []byte) error) error {
	d := getDecoder(list)
	defer d.putBack()
	if first, err := d.ReadToken(); err != nil || first.Kind() != '[' {
		return errors.Join(errors.New("not a list"), err)
	}
	for d.PeekKind() != ']' {
		element, err := d.ReadValue()
		if err == nil {
			err = f(element)
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	return d.checkEnd()
}

// decoder reads JSON without copying it. It accepts what encoding/json accepts.
type decoder struct {
	*jsontext.Decoder
	buffer bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return &decoder{Decoder: new(jsontext.Decoder)} }}

func getDecoder(raw []byte) *decoder {
	d := decoders.Get().(*decoder)
	d.reset(raw)
	return d
}

// putBack returns the decoder to the pool without references to the input.
func (d *decoder) putBack() {
	d.reset(nil)
	decoders.Put(d)
}

func (d *decoder) reset(raw []byte) {
	d.buffer = *bytes.NewBuffer(raw)
	d.Reset(&d.buffer, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// checkEnd checks that only space follows.
func (d *decoder) checkEnd() error {
	switch _, err := d.ReadToken(); err {
	case io.EOF:
		return nil
	case nil:
		return errors.New("data after the value")
	default:
		return err
	}
}

// Valid is json.Valid for JSON with NaN, Infinity and -Infinity.
func Valid(raw []byte) bool {
	if json.Valid(raw) {
		return true
	}
	finite := bytes.Clone(raw)
	return replaceInfinities(finite) && json.Valid(finite)
}

// replaceInfinities writes an empty object in place of each NaN, Infinity and -Infinity, and reports whether it found
// any.
func replaceInfinities(raw []byte) (some bool) {
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '-', 'I', 'N':
			for _, name := range []string{"NaN", "Infinity", "-Infinity"} {
				if bytes.HasPrefix(raw[i:], []byte(name)) {
					copy(raw[i:], "{}        "[:len(name)])
					some = true
					i += len(name) - 1
					break
				}
			}
		}
	}
	return some
}

// Lookup returns the value of a field by its name or by a dotted path, nil if it is missing.
func (o Object) Lookup(name string) []byte {
	value := o.Value(name)
	if first, rest, dotted := strings.Cut(name, "."); value == nil && dotted {
		return InnerObject(o.Value(first)).Lookup(rest)
	}
	return value
}

// InnerObject reads the object that is the value of a field. Any other value has no fields.
func InnerObject(value []byte) Object {
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	fields, _ := ReadObject(value) // already validated as a value
	return fields
}
