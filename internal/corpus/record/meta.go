package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"loaderd/internal/corpus/jsonvalue"
)

// Meta is a value that is passed on with a document: the field or column from which it is read, its name in the run,
// and its type.
type Meta struct {
	Name, Column string
	Type         string // one of MetaTypes; empty: a text or a number, unchanged
}

// MetaTypes are the types that a run's documents.meta may have.
var MetaTypes = []string{"string", "int64", "float64"}

const (
	maxMetaText = 1 << 10  // maximum bytes of a text in a run
	maxMeta     = 32 << 10 // maximum bytes of all values together, which are sent in a header
)

// ParseMeta parses NAME or NAME=COLUMN, each with an optional :TYPE.
func ParseMeta(text string) (m Meta, err error) {
	m.Name, m.Type, _ = strings.Cut(text, ":")
	name, column, renamed := strings.Cut(m.Name, "=")
	if m.Name, m.Column = name, name; renamed {
		m.Column = column
	}
	switch {
	case m.Name == "" || m.Column == "":
		return m, fmt.Errorf("%q: want NAME or NAME=COLUMN, optionally followed by :TYPE", text)
	case strings.Contains(text, ":") && !slices.Contains(MetaTypes, m.Type):
		return m, fmt.Errorf("%q: unknown type %q: want one of %s", text, m.Type, strings.Join(MetaTypes, ", "))
	}
	return m, nil
}

// MetaJSON returns the JSON object of the values in c.Meta, empty if the record has none of them. get returns the
// value of a column as JSON, nil for none. The error has a reason.
func (c Columns) MetaJSON(get func(column string) (json.RawMessage, error)) (string, error) {
	var b []byte
	for _, m := range c.Meta {
		raw, err := get(m.Column)
		if err == nil && len(raw) > 0 && string(raw) != "null" {
			raw, err = m.convert(raw)
		}
		if err != nil {
			return "", Errorf("%q: %w", m.Column, err)
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return "", Errorf("%q: %w", m.Name, err)
		}
		if b = append(b, ','); len(b) == 1 {
			b[0] = '{'
		}
		b = append(append(append(b, name...), ':'), raw...)
	}
	if len(b) == 0 {
		return "", nil
	}
	if len(b) > maxMeta {
		return "", Errorf("its values have %d bytes in total, want at most %d", len(b), maxMeta)
	}
	return string(append(b, '}')), nil
}

// convert returns a value in the type of the run.
func (m Meta) convert(raw json.RawMessage) (json.RawMessage, error) {
	var text string
	quoted := raw[0] == '"'
	if quoted {
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
	} else {
		text = string(raw)
	}
	switch m.Type {
	case "":
		if !quoted && !isNumber(raw) {
			return nil, fmt.Errorf("%.40s is neither a text nor a number: set its type with :string, :int64 or :float64",
				raw)
		}
	case "string":
		if !quoted {
			quoted, raw = true, MarshalText(text)
		}
	case "int64":
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if b, is := map[string]int64{"true": 1, "false": 0}[text]; is && !quoted {
			n, err = b, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%.40s is no int64", raw)
		}
		return strconv.AppendInt(nil, n, 10), nil
	case "float64":
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%.40s is no float64", raw)
		}
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
	if quoted && len(text) > maxMetaText {
		return nil, fmt.Errorf("a text has %d bytes, want at most %d", len(text), maxMetaText)
	}
	return raw, nil
}

// MarshalText returns a text as a JSON string on one line, as required in headers.
func MarshalText(text string) json.RawMessage {
	raw, err := json.Marshal(strings.ToValidUTF8(text, string(utf8.RuneError)))
	if err != nil {
		panic(err) // texts always encode
	}
	return raw
}

func isNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// lookupMeta returns a value of a JSON object, by its name or by a dotted path.
func lookupMeta(fields jsonvalue.Object, name string) (json.RawMessage, error) {
	raw := fields.Lookup(name)
	switch {
	case len(raw) > 0 && raw[0] == '"': // removes line breaks and invalid UTF-8
		return MarshalText(string(jsonvalue.Unquote(raw))), nil
	case len(raw) > 0 && (raw[0] == '{' || raw[0] == '['):
		var one bytes.Buffer
		err := json.Compact(&one, raw)
		return one.Bytes(), err
	}
	return raw, nil
}
