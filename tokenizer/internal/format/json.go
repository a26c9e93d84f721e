// Package format reads tokenizer.json and rank files syntactically. It is at least as strict as the reference
// implementations, and its memory is proportional to the size of the file. Package definition interprets the content.
// It also provides the texts of refusals.
package format

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/merge"
)

// Bounds of a tokenizer.json. The largest published ones have 35 MB, 270,000 tokens and 7,000 added tokens.
const (
	maxFileBytes      = 256 << 20 // also of a rank file
	maxComponentBytes = 8 << 20   // a normalizer with a compiled character map has 0.3 MB
	maxAddedTokens    = 1 << 20
	maxAddedBytes     = 8 << 20 // of their contents together
)

// Entry is an entry of the vocabulary, spelled as in the file.
type Entry struct {
	Token string
	ID    int32
}

// ReadConfig reads a tokenizer.json strictly: no duplicate names, no invalid UTF-8, no unknown field. Model holds
// "vocab" as []Entry in the order of the file, or as []Piece if it is a list, and "merges" as []merge.Rule, if the file
// has them in BPE's form.
func ReadConfig(in io.Reader) (*hf.Config, error) {
	r := configReader{dec: jsontext.NewDecoder(&boundedReader{in, maxFileBytes}), decodedFields: map[string]any{}}
	if err := r.copyEnclosed("{}", func() error { return r.readObject("tokenizer.json", r.readField) }); err != nil {
		return nil, describe(err)
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data follows the object, or the object is cut short")
	}
	c, err := parseConfig(bytes.TrimSuffix(r.text, []byte{','}))
	if err == nil {
		maps.Copy(c.Model, r.decodedFields)
	}
	return c, err
}

// describe returns an error of the JSON library as a problem of the file, with its place.
func describe(err error) error {
	syntax := (*jsontext.SyntacticError)(nil)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case !errors.As(err, &syntax):
		return err
	case errors.Is(syntax.Err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the file ends within its JSON, after %d bytes: copy it again", syntax.ByteOffset)
	case errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%s has the name %q twice, again at byte %d",
			Truncate(cmp.Or(string(syntax.JSONPointer.Parent()), "the file")), Truncate(syntax.JSONPointer.LastToken()),
			syntax.ByteOffset)
	}
	field := ""
	if syntax.JSONPointer != "" {
		field = " in " + Truncate(string(syntax.JSONPointer))
	}
	return fmt.Errorf("not valid JSON at byte %d%s: %w", syntax.ByteOffset, field, syntax.Err)
}

// boundedReader fails after left bytes, unlike io.LimitReader, which would report the end of the file.
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

// configReader checks a file and copies it into text for the library, without the sections that it decodes itself.
type configReader struct {
	dec           *jsontext.Decoder
	text          []byte
	arena         stringArena
	decodedFields map[string]any // fields of the model that are not in text
}

// readObject calls field for each name of an object; field must read the value.
func (r *configReader) readObject(what string, field func(name string) error) error {
	if k := r.dec.PeekKind(); k != '{' && k != 0 {
		return r.typeError(what, "an object")
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() == '"' {
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		text, err := r.decodeString(name)
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

// readList calls element for each element of a list; element must read it.
func (r *configReader) readList(what string, element func(i int) error) error {
	if k := r.dec.PeekKind(); k != '[' && k != 0 {
		return r.typeError(what, "a list")
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

// typeError returns the error for a value of the wrong type.
func (r *configReader) typeError(what, want string) error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: want %s, have %s", what, want, Truncate(v.String()))
}

func (r *configReader) readField(name string) error {
	switch name {
	case "added_tokens":
		return errors.Join(r.copyName(name), r.copyEnclosed("[]", r.readAddedTokens))
	case "model":
		return errors.Join(r.copyName(name), r.copyEnclosed("{}", func() error {
			return r.readObject(name, r.readModelField)
		}))
	}
	v, err := r.readValue(name)
	if err != nil {
		return err
	}
	switch name {
	case "version":
		if version, _ := unquote(v); version != "1.0" {
			return UnsupportedError(name, v)
		}
	case "truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder":
		if v.Kind() != '{' && v.Kind() != 'n' {
			return fmt.Errorf("%s: want an object, have %s", name, Describe(v))
		}
	default:
		return unknownFieldError(name, v)
	}
	return r.copyField(name, v)
}

// unknownFieldError returns the error for an unknown field. It recognises kinds of files that are mistaken for a
// tokenizer.json.
func unknownFieldError(name string, v jsontext.Value) error {
	switch {
	case v.Kind() == '0':
		return fmt.Errorf("field %s: the file is a vocabulary (vocab.json), which is one half of a tokenizer: %s",
			Truncate(strconv.Quote(name)), ConvertHint)
	case name == "added_tokens_decoder" || name == "tokenizer_class" || strings.HasSuffix(name, "_token"):
		return fmt.Errorf(
			"field %s: the file is the configuration of a tokenizer (tokenizer_config.json, special_tokens_map.json): %s",
			Truncate(strconv.Quote(name)), ConvertHint)
	}
	return UnsupportedError("field "+Truncate(strconv.Quote(name)), v)
}

// readValue reads a value of bounded size.
func (r *configReader) readValue(what string) (jsontext.Value, error) {
	v, err := r.dec.ReadValue()
	if err == nil && len(v) > maxComponentBytes {
		err = fmt.Errorf("%s: %d bytes, want at most %d", what, len(v), maxComponentBytes)
	}
	return v, err
}

// copyEnclosed copies brackets, what inside copies between them, and a comma.
func (r *configReader) copyEnclosed(brackets string, inside func() error) error {
	r.text = append(r.text, brackets[0])
	err := inside()
	if last := len(r.text) - 1; r.text[last] == ',' {
		r.text = r.text[:last]
	}
	r.text = append(r.text, brackets[1], ',')
	return err
}

// copyName copies the name of a field.
func (r *configReader) copyName(name string) (err error) {
	r.text, err = jsontext.AppendQuote(r.text, name)
	r.text = append(r.text, ':')
	return err
}

// copyField copies a field and a comma.
func (r *configReader) copyField(name string, v jsontext.Value) error {
	err := r.copyName(name)
	r.text = append(append(r.text, v...), ',')
	return err
}

func (r *configReader) readAddedTokens() error {
	size := 0
	return r.readList("added_tokens", func(i int) error {
		content, err := r.readAddedToken(fmt.Sprintf("added_tokens[%d]", i))
		if err != nil {
			return err
		}
		if size += len(content); i >= maxAddedTokens || size > maxAddedBytes {
			return fmt.Errorf("added_tokens[%d]: want at most %d added tokens of %d bytes together", i, maxAddedTokens,
				maxAddedBytes)
		}
		return nil
	})
}

// addedFields are the fields of an added token, and the type of each.
var addedFields = []struct{ name, want string }{
	{"id", "a whole number"}, {"content", "a text"},
	{"single_word", boolText}, {"lstrip", boolText}, {"rstrip", boolText}, {"normalized", boolText}, {"special", boolText},
}

const boolText = "true or false"

// readAddedToken copies a token, which must have all fields, as in the reference. It omits null values and fields with
// other names, which the library would accept if only the case of letters differs.
func (r *configReader) readAddedToken(where string) (content string, err error) {
	given := map[string]bool{}
	read := func(name string) error {
		v, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(addedFields, func(f struct{ name, want string }) bool { return f.name == name })
		if at < 0 || v.Kind() == 'n' {
			return nil
		}
		given[name] = true
		var ok bool
		switch name {
		case "id":
			_, err := strconv.ParseInt(string(v), 10, 64)
			ok = err == nil
		case "content":
			content, err = unquote(v)
			ok = err == nil
		default:
			ok = v.Kind() == 't' || v.Kind() == 'f'
		}
		if !ok {
			return fmt.Errorf("%s: want %s for %s, have %s", where, addedFields[at].want, name, Truncate(v.String()))
		}
		return r.copyField(name, v)
	}
	if err := r.copyEnclosed("{}", func() error { return r.readObject(where, read) }); err != nil {
		return "", err
	}
	for _, f := range addedFields {
		if !given[f.name] {
			return "", fmt.Errorf("%s %s: %q is missing", where, Truncate(strconv.Quote(content)), f.name)
		}
	}
	return content, nil
}

// decodeString decodes a JSON string.
func (r *configReader) decodeString(v jsontext.Value) (string, error) {
	if bytes.IndexByte(v, '\\') < 0 {
		return r.arena.store(v[1 : len(v)-1]), nil
	}
	return unquote(v)
}

// unquote decodes a JSON string.
func unquote(v jsontext.Value) (string, error) {
	text, err := jsontext.AppendUnquote(nil, v)
	return string(text), err
}

func (r *configReader) readModelField(name string) error {
	switch k := r.dec.PeekKind(); {
	case name == "vocab" && k == '{':
		return r.readVocab()
	case name == "vocab" && k == '[':
		return r.readPieces()
	case name == "merges" && k == '[':
		return r.readMerges()
	case name == "vocab" || name == "merges": // those of another kind of model
		r.decodedFields[name] = "not BPE's"
		return r.dec.SkipValue()
	}
	v, err := r.readValue("model " + name)
	if err != nil {
		return err
	}
	return r.copyField(name, v)
}

func (r *configReader) readVocab() error {
	var list []Entry
	err := r.readObject("model vocab", func(token string) error {
		v, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		id, err := strconv.ParseUint(string(v), 10, 32)
		if err != nil || id > merge.MaxID {
			return fmt.Errorf("model vocab: token %s: id %s is not an integer in 0..%d", Truncate(strconv.Quote(token)),
				Truncate(v.String()), merge.MaxID)
		}
		if len(list) > merge.MaxID {
			return fmt.Errorf("model vocab: more than %d tokens", merge.MaxID+1)
		}
		list = append(growDouble(list), Entry{token, int32(id)})
		return nil
	})
	r.decodedFields["vocab"] = list
	return err
}

// readMerges reads merges in either spelling, "a b" or ["a", "b"]. The reference refuses a file that has both.
func (r *configReader) readMerges() error {
	var list []merge.Rule
	var spelling jsontext.Kind // of the first
	err := r.readList("model merges", func(i int) error {
		if i > merge.MaxID {
			return fmt.Errorf("model merges: more than %d", merge.MaxID+1)
		}
		v, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(v, []byte(`"#version`)) {
			return nil // as in a merges.txt; the reference skips it too
		}
		if spelling == 0 {
			spelling = v.Kind()
		}
		m, ok := r.decodeMerge(v)
		if ok && v.Kind() != spelling {
			return fmt.Errorf(`model merges: merge %d: %s where those before are spelled otherwise: `+
				`want all of them as "left right", or all as ["left", "right"]`, i, Truncate(v.String()))
		}
		if !ok {
			return fmt.Errorf(`model merges: merge %d: want "left right" or ["left", "right"], have %s`, i, Truncate(v.String()))
		}
		list = append(growDouble(list), m)
		return nil
	})
	r.decodedFields["merges"] = list
	return err
}

// growDouble ensures room for another element by doubling the capacity. append grows long lists only by a quarter, and
// these lists are long.
func growDouble[T any](list []T) []T {
	if len(list) < cap(list) {
		return list
	}
	return slices.Grow(list, max(len(list), 1<<8))
}

// decodeMerge decodes a merge.
func (r *configReader) decodeMerge(v jsontext.Value) (m merge.Rule, ok bool) {
	if left, right, ok := plainPair(v); ok {
		return merge.Rule{Left: r.arena.store(left), Right: r.arena.store(right)}, true
	}
	if v.Kind() == '"' {
		s, err := unquote(v)
		if err != nil {
			return m, false
		}
		m.Left, m.Right, ok = strings.Cut(s, " ")
		return m, ok && !strings.Contains(m.Right, " ")
	}
	var parts []any
	if err := json.Unmarshal(v, &parts); err != nil || len(parts) != 2 {
		return m, false
	}
	left, okL := parts[0].(string)
	right, okR := parts[1].(string)
	return merge.Rule{Left: left, Right: right}, okL && okR
}

// ByteToken matches the token of a byte if merging starts with characters.
var ByteToken = regexp.MustCompile(`^<0x[0-9A-F]{2}>$`)
