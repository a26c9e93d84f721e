package record

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

	"loaderd/internal/corpus/jsonvalue"
)

// MaxLabel bounds a label or path in bytes, which is published without a request. It is sent in a header, and the
// server accepts 64 KiB of headers.
const MaxLabel = 1 << 10

// MaxID bounds a requested id in bytes.
const MaxID = 16 << 10

// Parse returns the document of one JSON object. It may write to raw, as jsonvalue.ReadObject does. Its error has a
// reason.
func (c Columns) Parse(raw []byte) (Document, error) {
	if !utf8.Valid(raw) {
		return Document{}, Errorf("not valid UTF-8 (--encoding names another encoding)")
	}
	name := c.Text
	if c.Tokens {
		name = ""
	}
	fields, text, err := jsonvalue.ReadObjectText(raw, name)
	if err != nil {
		return Document{}, notObjectError(err)
	}
	return c.document(fields, text)
}

// Document returns the document of a record's fields. Its error has a reason.
func (c Columns) Document(fields jsonvalue.Object) (Document, error) { return c.document(fields, nil) }

// document is Document with the decoded text, if it is known.
func (c Columns) document(fields jsonvalue.Object, text []byte) (Document, error) {
	d, err := c.decodeContent(fields, text)
	if err != nil {
		return Document{}, err
	}
	if d.Weight, err = decodeWeight(fields.Value("weight")); err != nil {
		return Document{}, Errorf(`field "weight": %w`, err)
	}
	if int64(len(d.Data)) > c.MaxDocument {
		return Document{}, c.TooLargeError(len(d.Data))
	}
	path := DecodeLabel(jsonvalue.InnerObject(fields.Value("meta")).Value("path"))
	d.SetLabels(func(column string) string { return DecodeLabel(fields.Value(column)) }, path)
	d.Meta, err = c.MetaJSON(func(column string) (json.RawMessage, error) { return lookupMeta(fields, column) })
	if err != nil {
		return Document{}, err
	}
	if c.ID == "" {
		return d, nil
	}
	value := fields.Lookup(c.ID)
	if value == nil {
		return Document{}, Errorf("no field %q; it has %s", c.ID, ListNames(fields.Names()))
	}
	if d.ID, err = DecodeID(value); err != nil {
		return Document{}, Errorf("field %q: %w", c.ID, err)
	}
	return d, c.CheckID(len(d.ID))
}

// decodeContent returns the document of a record's text, parts or tokens. text is the decoded text, if it is known.
func (c Columns) decodeContent(fields jsonvalue.Object, text []byte) (d Document, err error) {
	if text != nil {
		return Document{Data: text}, nil
	}
	value, parts := fields.Lookup(c.Text), fields.Value("parts")
	switch {
	case value == nil && parts != nil && !c.Tokens:
		d.Parts = true
		if d.Data, err = encodeParts(parts); err != nil {
			return d, Errorf(`field "parts": %w`, err)
		}
		return d, nil
	case value == nil:
		return d, &recordError{Invalid, c.MissingTextError(fields.Names())}
	case !c.Tokens && bytes.IndexByte(value, '\\') < 0 &&
		int64(len(value)-len(`""`)) > c.MaxDocument: // without copying
		return d, c.TooLargeError(len(value) - len(`""`))
	case !c.Tokens:
		d.Data, err = DecodeText(value)
	default:
		d.Data, err = DecodeTokens(value)
	}
	if err != nil {
		return d, Errorf("field %q: %w", c.Text, err)
	}
	if c.Tokens {
		if d.Loss, err = decodeMask(fields.Value("loss"), len(d.Data)/4); err != nil {
			return d, Errorf(`field "loss": %w`, err)
		}
	}
	return d, nil
}

// encodeParts checks [{"text", "loss"}, ...] and returns it in the format of a document's message.
func encodeParts(raw []byte) ([]byte, error) {
	any, count := false, 0
	err := jsonvalue.EachElement(raw, func(element []byte) error {
		var part struct {
			Text *rawString `json:"text"`
			Loss *bool      `json:"loss"`
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

// rawString is a JSON string that is not decoded.
type rawString struct{ empty bool }

func (u *rawString) UnmarshalJSON(raw []byte) error {
	if raw[0] != '"' {
		return errors.New("not a string")
	}
	u.empty = len(raw) == len(`""`)
	return nil
}

// decodeWeight returns a loss weight: nil for 1, and for a record without one.
func decodeWeight(raw []byte) (*float32, error) {
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

// decodeMask returns which tokens have a loss, as lengths of runs. raw has true or 1 for each such token. It returns
// nil for a record without a mask.
func decodeMask(raw []byte, tokens int) (lengths []int32, _ error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	loss, count := true, 0
	lengths = []int32{0}
	var wrong error // the first invalid value
	err := jsonvalue.EachElement(raw, func(flag []byte) error {
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
		return nil, fmt.Errorf("want a list of %d values, one per token: true and false, or 1 and 0", tokens)
	}
	if wrong != nil {
		return nil, wrong
	}
	return lengths, nil
}

// SetLabels sets the document's label and path from the record's columns id, path and url, and from its meta.path.
func (d *Document) SetLabels(column func(string) string, metaPath string) {
	d.Label = CleanLabel(column("id"))
	for _, path := range []string{column("path"), metaPath, column("url")} {
		if d.Path == "" {
			d.Path = CleanLabel(path)
		}
	}
}

// CleanLabel returns a label or path without surrounding space, empty if a header cannot hold it.
func CleanLabel(s string) string {
	if len(s) > MaxLabel || strings.ContainsAny(s, "\r\n\x00") {
		return ""
	}
	return strings.TrimSpace(s)
}

// DecodeLabel returns a JSON string or number, empty for any other value.
func DecodeLabel(raw []byte) string {
	const longestEscape = len(`\u0000`)
	if len(raw) > longestEscape*MaxLabel+len(`""`) { // too long, however it is escaped
		return ""
	}
	s, err := DecodeID(raw)
	if err != nil {
		return ""
	}
	return s
}

// notObjectError returns the error for a record that is not an object, with the name of its JSON type.
func notObjectError(err error) error {
	var is *json.UnmarshalTypeError
	if !errors.As(err, &is) {
		return Errorf("not a JSON object: %w", err)
	}
	what := map[string]string{"array": "a list", "bool": "true or false"}[is.Value]
	if what == "" {
		what = "a " + is.Value
	}
	return Errorf("is %s, want a JSON object", what)
}

// DecodeText returns the text of a JSON string.
func DecodeText(raw []byte) ([]byte, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, errors.New("not a string")
	}
	return jsonvalue.Unquote(raw), nil
}

// DecodeTokens returns a JSON list of token ids as little-endian int32.
func DecodeTokens(raw []byte) ([]byte, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, errors.New("not a list of token ids")
	}
	count := 0
	b := make([]byte, 0, 4*(bytes.Count(raw, []byte(","))+1))
	err := jsonvalue.EachElement(raw, func(id []byte) error {
		if string(id) == "null" {
			return fmt.Errorf("token %d is null", count)
		}
		n, err := strconv.ParseInt(string(id), 10, 64)
		if err != nil {
			return fmt.Errorf("token %d: %.40s is not an integer", count, id)
		}
		if b, err = AppendToken(b, n); err != nil {
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

// AppendToken appends a token id as a little-endian int32.
func AppendToken(b []byte, id int64) ([]byte, error) {
	if id < 0 || id > math.MaxInt32 {
		return nil, fmt.Errorf("id %d does not fit 31 bits", id)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(id)), nil
}

// DecodeID returns a JSON string, or the literal of a number.
func DecodeID(raw []byte) (string, error) {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		return string(jsonvalue.Unquote(raw)), nil
	case len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'):
		return string(raw), nil
	}
	return "", errors.New("neither a string nor a number")
}
