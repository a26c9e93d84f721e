package corpus

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// labelMost bounds a label or path, which is published though nobody asked for it: it travels in a header, of which the server takes 64 KiB.
const labelMost = 1 << 10

// idMost bounds the id that was asked for.
const idMost = 16 << 10

// badRecord is a record that is no document.
type badRecord struct {
	reason Reason
	err    error
}

func (e *badRecord) Error() string { return e.err.Error() }
func (e *badRecord) Unwrap() error { return e.err }

func bad(format string, args ...any) error { return &badRecord{BadRecord, fmt.Errorf(format, args...)} }

func (o Options) tooLarge(n int) error {
	return &badRecord{TooLarge, fmt.Errorf("document has %d bytes, more than %d", n, o.MaxDocument)}
}

// skip yields a record that is left out.
func (s source) skip(yield yielder, line int64, err error) bool {
	reason := BadRecord
	var b *badRecord
	if errors.As(err, &b) {
		reason = b.reason
	}
	return yield(Document{}, &SkipError{Reason: reason, Path: s.path, Origin: s.origin, Line: line, Err: err})
}

// give yields a document of a file.
func (s source) give(yield yielder, d Document) bool {
	d.Origin = s.origin
	if d.Path == "" {
		d.Path = s.path
	}
	return yield(d, nil)
}

// parse reads the document of one JSON object. It may write to raw, see readObject. Its error is a *badRecord.
func (o Options) parse(raw []byte) (Document, error) {
	if !utf8.Valid(raw) {
		return Document{}, bad("not valid UTF-8 (--encoding names another encoding)")
	}
	fields, err := readObject(raw)
	if err != nil {
		return Document{}, notObject(err)
	}
	return o.document(fields)
}

// document returns the document of a record's fields. Its error is a *badRecord.
func (o Options) document(fields object) (Document, error) {
	d, err := o.content(fields)
	if err != nil {
		return Document{}, err
	}
	if d.Weight, err = weight(fields.value("weight")); err != nil {
		return Document{}, bad(`field "weight": %w`, err)
	}
	if int64(len(d.Data)) > o.MaxDocument {
		return Document{}, o.tooLarge(len(d.Data))
	}
	path := label(inner(fields.value("meta")).value("path"))
	d.name(func(column string) string { return label(fields.value(column)) }, path)
	if d.Meta, err = o.metaOf(func(column string) (json.RawMessage, error) { return nested(fields, column) }); err != nil {
		return Document{}, err
	}
	if o.IDField == "" {
		return d, nil
	}
	value := within(fields, o.IDField)
	if value == nil {
		return Document{}, bad("no field %q; it has %s", o.IDField, list(fields.names()))
	}
	if d.ID, err = id(value); err != nil {
		return Document{}, bad("field %q: %w", o.IDField, err)
	}
	return d, o.checkID(len(d.ID))
}

// within finds a field, by its name or by names with dots between them; nil without one.
func within(fields object, name string) []byte {
	value := fields.value(name)
	if first, rest, dotted := strings.Cut(name, "."); value == nil && dotted {
		return within(inner(fields.value(first)), rest)
	}
	return value
}

// inner reads the object that is a field's value; of any other value it has no fields.
func inner(value []byte) object {
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	fields, _ := readObject(value) // it was read as a value
	return fields
}

// content is the document that a record's text, parts or tokens make.
func (o Options) content(fields object) (d Document, err error) {
	value, parts := within(fields, o.TextField), fields.value("parts")
	switch {
	case value == nil && parts != nil && !o.Tokens:
		d.Parts = true
		if d.Data, err = textInParts(parts); err != nil {
			return d, bad(`field "parts": %w`, err)
		}
		return d, nil
	case value == nil:
		return d, &badRecord{BadRecord, o.missing(o.TextField, list(fields.names()))}
	case !o.Tokens && bytes.IndexByte(value, '\\') < 0 && int64(len(value)-len(`""`)) > o.MaxDocument: // nothing is copied
		return d, o.tooLarge(len(value) - len(`""`))
	case !o.Tokens:
		d.Data, err = text(value)
	default:
		d.Data, err = tokens(value)
	}
	if err != nil {
		return d, bad("field %q: %w", o.TextField, err)
	}
	if o.Tokens {
		if d.Loss, err = mask(fields.value("loss"), len(d.Data)/4); err != nil {
			return d, bad(`field "loss": %w`, err)
		}
	}
	return d, nil
}

// textInParts checks [{"text", "loss"}, ...] and returns it as a document's message has it.
func textInParts(raw []byte) ([]byte, error) {
	any, count := false, 0
	err := eachElement(raw, func(element []byte) error {
		var part struct {
			Text *uncopied `json:"text"`
			Loss *bool     `json:"loss"`
		}
		if err := json.Unmarshal(element, &part); err != nil {
			return err
		}
		if part.Text == nil {
			return &noTextError{count}
		}
		any, count = any || !part.Text.empty, count+1
		return nil
	})
	if lacks := (*noTextError)(nil); errors.As(err, &lacks) {
		return nil, err
	}
	if err != nil {
		return nil, errors.New(`want a list of objects with a string under "text", and true or false under "loss"`)
	}
	if !any {
		return nil, nil
	}
	return slices.Concat([]byte(`{"parts":`), raw, []byte("}")), nil
}

// noTextError is of a part without a text.
type noTextError struct{ part int }

func (e *noTextError) Error() string { return fmt.Sprintf(`part %d has no "text"`, e.part) }

// uncopied is a JSON string that is not decoded.
type uncopied struct{ empty bool }

func (u *uncopied) UnmarshalJSON(raw []byte) error {
	if raw[0] != '"' {
		return errors.New("not a string")
	}
	u.empty = len(raw) == len(`""`)
	return nil
}

// weight is a factor of the loss: nil for 1, and for a record that says none.
func weight(raw []byte) (*float32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	f, err := strconv.ParseFloat(string(raw), 32)
	if err != nil || f < 0 {
		return nil, fmt.Errorf("%.40s: want a finite number, 0 or more", raw)
	}
	w := float32(f)
	if w == 1 {
		return nil, nil
	}
	return &w, nil
}

// mask reads which tokens have a loss, true or 1 for each that has, as lengths of runs; nil where a record says nothing.
func mask(raw []byte, tokens int) (lengths []int32, _ error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	loss, count := true, 0
	lengths = []int32{0}
	var wrong error // the first value that is none
	err := eachElement(raw, func(flag []byte) error {
		has := string(flag) == "true" || string(flag) == "1"
		if !has && string(flag) != "false" && string(flag) != "0" && wrong == nil {
			wrong = fmt.Errorf("value %d is %.40s, want true, false, 1 or 0", count, flag)
		}
		if count++; has != loss {
			loss, lengths = has, append(lengths, 0)
		}
		lengths[len(lengths)-1]++
		return nil
	})
	if err != nil || count != tokens {
		return nil, fmt.Errorf("want a list of %d values, one for each token, of true and false or 1 and 0", tokens)
	}
	if wrong != nil {
		return nil, wrong
	}
	return lengths, nil
}

func (o Options) checkID(size int) error {
	if size > idMost {
		return bad("the id in %q has %d bytes, more than %d", o.IDField, size, idMost)
	}
	return nil
}

// name takes over what a record says of itself: id, path, meta.path, url.
func (d *Document) name(column func(string) string, metaPath string) {
	d.Label = short(column("id"))
	for _, path := range []string{column("path"), metaPath, column("url")} {
		if d.Path == "" {
			d.Path = short(path)
		}
	}
}

// short is a label or path, or empty where no header can hold it.
func short(s string) string {
	if len(s) > labelMost || strings.ContainsAny(s, "\r\n\x00") {
		return ""
	}
	return strings.TrimSpace(s)
}

// label is a string or a number, and empty for anything else.
func label(raw []byte) string {
	const longestEscape = len(`\u0000`)
	if len(raw) > longestEscape*labelMost+len(`""`) { // too long, however it is escaped
		return ""
	}
	s, err := id(raw)
	if err != nil {
		return ""
	}
	return s
}

// notObject says in JSON's words what a record is instead of an object.
func notObject(err error) error {
	var is *json.UnmarshalTypeError
	if !errors.As(err, &is) {
		return bad("not a JSON object: %w", err)
	}
	what := map[string]string{"array": "a list", "bool": "true or false"}[is.Value]
	if what == "" {
		what = "a " + is.Value
	}
	return bad("is %s, want a JSON object", what)
}

func text(raw []byte) ([]byte, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, errors.New("not a string")
	}
	return unquote(raw), nil
}

func tokens(raw []byte) ([]byte, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, errors.New("not a list of token ids")
	}
	count := 0
	b := make([]byte, 0, 4*(bytes.Count(raw, []byte(","))+1))
	err := eachElement(raw, func(id []byte) error {
		if string(id) == "null" {
			return fmt.Errorf("token %d is null", count)
		}
		n, err := strconv.ParseInt(string(id), 10, 64)
		if err != nil {
			return fmt.Errorf("token %d: %.40s is not an integer", count, id)
		}
		if b, err = appendToken(b, n); err != nil {
			return fmt.Errorf("token %d: %w", count, err)
		}
		count++
		return nil
	})
	if err != nil {
		return nil, err
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
func id(raw []byte) (string, error) {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		return string(unquote(raw)), nil
	case len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'):
		return string(raw), nil
	}
	return "", errors.New("neither a string nor a number")
}

// listed is how many names an error message holds.
const listed = 20

// list names things for an error message.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	more := ""
	if len(names) > listed {
		more = fmt.Sprintf(" and %d more", len(names)-listed)
		names = names[:listed]
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ") + more
}
