// Package format reads tokenizer.json and rank files as they are written: strictly, as the reference implementations do or more so, and
// in memory that follows from the size of the file. What a file means is told by package definition. It also words the refusals.
package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"loaderd/tokenizer/internal/merge"
)

// Bounds of a tokenizer.json. The largest published ones have 35 MB, 270,000 tokens and 7,000 added tokens.
const (
	maxFileBytes      = 256 << 20 // also of a rank file
	maxComponentBytes = 8 << 20   // a normalizer with a compiled character map has 0.3 MB
	maxAddedTokens    = 1 << 20
	maxAddedBytes     = 8 << 20 // their contents together
)

// Entry is an entry of the vocabulary, spelled as in the file.
type Entry struct {
	Token string
	ID    int32
}

// ReadConfig reads a tokenizer.json strictly: no name twice, no invalid UTF-8, no unknown field.
func ReadConfig(in io.Reader) (*Config, error) {
	r := configReader{dec: jsontext.NewDecoder(&boundedReader{in, maxFileBytes}), c: &Config{}}
	if err := r.object("tokenizer.json", r.field); err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the object, or it is cut short")
	}
	return r.c, nil
}

// boundedReader fails after left bytes, where io.LimitReader would pretend that the file ends.
type boundedReader struct {
	in   io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the file has more than %d bytes", maxFileBytes)
	}
	return n, err
}

type configReader struct {
	dec  *jsontext.Decoder
	part jsontext.Decoder // of a value that dec has read
	kept texts
	c    *Config
}

// object calls field for each name of an object, which must read the value.
func (r *configReader) object(what string, field func(name string) error) error {
	if k := r.dec.PeekKind(); k != '{' && k != 0 {
		return r.wrong(what, "an object")
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() == '"' {
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		text, err := r.string(name)
		if err != nil {
			return err
		}
		if err := field(text); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// list calls element for each element of a list, which must read it.
func (r *configReader) list(what string, element func(i int) error) error {
	if k := r.dec.PeekKind(); k != '[' && k != 0 {
		return r.wrong(what, "a list")
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		switch r.dec.PeekKind() {
		case 0, ']':
			_, err := r.dec.ReadToken()
			return err
		}
		if err := element(i); err != nil {
			return err
		}
	}
}

// wrong says what stands where something else is wanted.
func (r *configReader) wrong(what, want string) error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: want %s, have %s", what, want, Cut(v.String()))
}

func (r *configReader) field(name string) error {
	switch name {
	case "version":
		v, err := r.value(name)
		if err == nil && v != "1.0" {
			err = Refuse(name, v)
		}
		r.c.Version = "1.0"
		return err
	case "truncation":
		return r.into(name, &r.c.Truncation)
	case "padding":
		return r.into(name, &r.c.Padding)
	case "added_tokens":
		return r.addedTokens()
	case "normalizer":
		return r.into(name, &r.c.Normalizer)
	case "pre_tokenizer":
		return r.into(name, &r.c.PreTokenizer)
	case "post_processor":
		return r.into(name, &r.c.PostProcessor)
	case "decoder":
		return r.into(name, &r.c.Decoder)
	case "model":
		r.c.Model = map[string]any{}
		return r.object("model", r.modelField)
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	return Refuse("field "+strconv.Quote(name), v)
}

// into reads a component: an object, or null.
func (r *configReader) into(what string, to *map[string]any) error {
	v, err := r.value(what)
	if err != nil {
		return err
	}
	var ok bool
	if *to, ok = v.(map[string]any); !ok && v != nil {
		return fmt.Errorf("%s: want an object, have %s", what, Describe(v))
	}
	return nil
}

// value reads whatever stands there: nil, a bool, a float64, a string, a list as []any or an object as map[string]any.
func (r *configReader) value(what string) (any, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if len(v) > maxComponentBytes {
		return nil, fmt.Errorf("%s: %d bytes, want at most %d", what, len(v), maxComponentBytes)
	}
	to, err := r.parse(v)
	if err != nil {
		return nil, fmt.Errorf("%s: have %s: %w", what, Cut(v.String()), err)
	}
	return to, nil
}

// parse makes of a value what value says.
func (r *configReader) parse(v jsontext.Value) (any, error) {
	r.part.Reset(bytes.NewBuffer(v)) // which reads from v itself
	return parsed(&r.part)
}

// parsed reads the next value of a decoder. How deep lists and objects are nested is bounded by the decoder.
func parsed(dec *jsontext.Decoder) (any, error) {
	t, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		return strconv.ParseFloat(t.String(), 64)
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := parsed(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.ReadToken()
		return list, err
	}
	object := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // the token is gone with the next one
		if object[key], err = parsed(dec); err != nil {
			return nil, err
		}
	}
	_, err = dec.ReadToken()
	return object, err
}

func (r *configReader) addedTokens() error {
	size := 0
	return r.list("added_tokens", func(i int) error {
		t, err := r.addedToken(fmt.Sprintf("added_tokens[%d]", i))
		if err != nil {
			return err
		}
		if size += len(t.Content); i >= maxAddedTokens || size > maxAddedBytes {
			return fmt.Errorf("added_tokens[%d]: want at most %d added tokens of %d bytes together", i, maxAddedTokens, maxAddedBytes)
		}
		r.c.AddedTokens = append(r.c.AddedTokens, t)
		return nil
	})
}

// addedToken reads a token, of which all fields must be there, as in the reference.
func (r *configReader) addedToken(where string) (t AddedToken, err error) {
	truths := map[string]*bool{"single_word": &t.SingleWord, "lstrip": &t.Lstrip, "rstrip": &t.Rstrip, "normalized": &t.Normalized, "special": &t.Special}
	given := map[string]bool{}
	err = r.object(where, func(name string) error {
		v, err := r.dec.ReadValue()
		if err != nil || v.Kind() == 'n' {
			return err // null is no value
		}
		given[name] = true
		want := ""
		truth, isTruth := truths[name]
		switch {
		case isTruth && (v.Kind() == 't' || v.Kind() == 'f'):
			*truth = v.Kind() == 't'
		case isTruth:
			want = "true or false"
		case name == "content":
			if t.Content, err = unquoted(v); err != nil {
				want = "a text"
			}
		case name == "id":
			if t.ID, err = strconv.ParseInt(string(v), 10, 64); err != nil {
				want = "a whole number"
			}
		}
		if want != "" {
			return fmt.Errorf("%s: want %s for %s, have %s", where, want, name, Cut(v.String()))
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	for _, name := range addedFields {
		if !given[name] {
			return t, fmt.Errorf("%s %s: %q is missing", where, Cut(strconv.Quote(t.Content)), name)
		}
	}
	return t, nil
}

var addedFields = []string{"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}

// string is a string of JSON.
func (r *configReader) string(v jsontext.Value) (string, error) {
	if bytes.IndexByte(v, '\\') < 0 {
		return r.kept.text(v[1 : len(v)-1]), nil
	}
	return unquoted(v)
}

// unquoted is a string of JSON.
func unquoted(v jsontext.Value) (string, error) {
	text, err := jsontext.AppendUnquote(nil, v)
	return string(text), err
}

func (r *configReader) modelField(name string) error {
	switch k := r.dec.PeekKind(); {
	case name == "vocab" && k == '{':
		return r.vocab()
	case name == "merges" && k == '[':
		return r.merges()
	case name == "vocab" || name == "merges": // another model's
		r.c.Model[name] = "not BPE's"
		return r.dec.SkipValue()
	}
	v, err := r.value("model " + name)
	r.c.Model[name] = v
	return err
}

func (r *configReader) vocab() error {
	var list []Entry
	err := r.object("model vocab", func(token string) error {
		v, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		id, err := strconv.ParseUint(string(v), 10, 32)
		if err != nil || id > merge.MaxID {
			return fmt.Errorf("model vocab: token %s: id %s is not an integer in 0..%d", Cut(strconv.Quote(token)), Cut(v.String()), merge.MaxID)
		}
		if len(list) > merge.MaxID {
			return fmt.Errorf("model vocab: more than %d tokens", merge.MaxID+1)
		}
		list = append(doubled(list), Entry{token, int32(id)})
		return nil
	})
	r.c.Model["vocab"] = list
	return err
}

// merges reads the merges of either spelling, "a b" or ["a", "b"]. The reference refuses a file that has both.
func (r *configReader) merges() error {
	var list []merge.Rule
	var spelling jsontext.Kind // of the first
	err := r.list("model merges", func(i int) error {
		if i > merge.MaxID {
			return fmt.Errorf("model merges: more than %d", merge.MaxID+1)
		}
		v, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(v, []byte(`"#version`)) {
			return nil // as in a merges.txt; the reference passes over it too
		}
		if spelling == 0 {
			spelling = v.Kind()
		}
		m, ok := r.merge(v)
		if ok && v.Kind() != spelling {
			return fmt.Errorf(`model merges: merge %d: %s where those before are spelled otherwise: `+
				`want all of them as "left right", or all as ["left", "right"]`, i, Cut(v.String()))
		}
		if !ok {
			return fmt.Errorf(`model merges: merge %d: want "left right" or ["left", "right"], have %s`, i, Cut(v.String()))
		}
		list = append(doubled(list), m)
		return nil
	})
	r.c.Model["merges"] = list
	return err
}

// doubled has room for one more; where append makes long lists a quarter longer, it makes them twice as long, as they are long here.
func doubled[T any](list []T) []T {
	if len(list) < cap(list) {
		return list
	}
	return slices.Grow(list, max(len(list), 1<<8))
}

// merge is what a value says of a merge.
func (r *configReader) merge(v jsontext.Value) (m merge.Rule, ok bool) {
	if left, right, ok := plainPair(v); ok {
		return merge.Rule{Left: r.kept.text(left), Right: r.kept.text(right)}, true
	}
	if v.Kind() == '"' {
		s, err := unquoted(v)
		if err != nil {
			return m, false
		}
		m.Left, m.Right, ok = strings.Cut(s, " ")
		return m, ok && !strings.Contains(m.Right, " ")
	}
	list, err := r.parse(v)
	if parts, ok := list.([]any); err == nil && ok && len(parts) == 2 {
		left, okL := parts[0].(string)
		right, okR := parts[1].(string)
		return merge.Rule{Left: left, Right: right}, okL && okR
	}
	return m, false
}

// ByteToken is how the token of a byte is spelled where merging begins with characters.
var ByteToken = regexp.MustCompile(`^<0x[0-9A-F]{2}>$`)
