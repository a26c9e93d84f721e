// Package format reads tokenizer.json and rank files as they are written: strictly, as the reference implementations do or more so, and
// in memory that follows from the size of the file. What a file means is told by package definition. It also words the refusals.
package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	hf "github.com/sugarme/tokenizer"

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

// ReadConfig reads a tokenizer.json strictly: no name twice, no invalid UTF-8, no unknown field. Model holds "vocab" as
// []Entry in the order of the file, and "merges" as []merge.Rule, where the file has them in BPE's form.
func ReadConfig(in io.Reader) (*hf.Config, error) {
	r := configReader{dec: jsontext.NewDecoder(&boundedReader{in, maxFileBytes}), c: &hf.Config{}}
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
	dec *jsontext.Decoder
	c   *hf.Config
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
		name, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := field(name.String()); err != nil {
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
		if err := r.into("version", &r.c.Version); err != nil {
			return err
		}
		if r.c.Version != "1.0" {
			return Refuse("version", r.c.Version)
		}
		return nil
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

// into reads a component.
func (r *configReader) into(what string, to any) error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	if len(v) > maxComponentBytes {
		return fmt.Errorf("%s: %d bytes, want at most %d", what, len(v), maxComponentBytes)
	}
	if err := json.Unmarshal(v, to); err != nil {
		return fmt.Errorf("%s: have %s: %w", what, Cut(v.String()), err)
	}
	return nil
}

// addedFields must all be there, as in the reference.
var addedFields = []string{"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}

func (r *configReader) addedTokens() error {
	size := 0
	return r.list("added_tokens", func(i int) error {
		where := fmt.Sprintf("added_tokens[%d]", i)
		var fields map[string]jsontext.Value
		var t hf.TokenConfig
		v, err := r.dec.ReadValue()
		if err == nil {
			err = json.Unmarshal(v, &fields)
		}
		if err == nil {
			err = json.Unmarshal(v, &t)
		}
		if err != nil {
			return fmt.Errorf("%s: have %s: %w", where, Cut(v.String()), err)
		}
		for _, name := range addedFields {
			if fields[name].Kind() == 'n' || fields[name] == nil {
				return fmt.Errorf("%s %s: %q is missing", where, Cut(strconv.Quote(t.Content)), name)
			}
		}
		if size += len(t.Content); i >= maxAddedTokens || size > maxAddedBytes {
			return fmt.Errorf("%s: want at most %d added tokens of %d bytes together", where, maxAddedTokens, maxAddedBytes)
		}
		r.c.AddedTokens = append(r.c.AddedTokens, t)
		return nil
	})
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
	var v any
	if err := r.into("model "+name, &v); err != nil {
		return err
	}
	r.c.Model[name] = v
	return nil
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
		list = append(list, Entry{token, int32(id)})
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
		m, ok := readMerge(v)
		if ok && v.Kind() != spelling {
			return fmt.Errorf(`model merges: merge %d: %s where those before are spelled otherwise: `+
				`want all of them as "left right", or all as ["left", "right"]`, i, Cut(v.String()))
		}
		if !ok {
			return fmt.Errorf(`model merges: merge %d: want "left right" or ["left", "right"], have %s`, i, Cut(v.String()))
		}
		list = append(list, m)
		return nil
	})
	r.c.Model["merges"] = list
	return err
}

func readMerge(v jsontext.Value) (m merge.Rule, ok bool) {
	if v.Kind() == '"' {
		var s string
		if json.Unmarshal(v, &s) != nil {
			return m, false
		}
		m.Left, m.Right, ok = strings.Cut(s, " ")
		return m, ok && !strings.Contains(m.Right, " ")
	}
	var parts []string
	if json.Unmarshal(v, &parts) != nil || len(parts) != 2 {
		return m, false
	}
	return merge.Rule{Left: parts[0], Right: parts[1]}, true
}

// ByteToken is how the token of a byte is spelled where merging begins with characters.
var ByteToken = regexp.MustCompile(`^<0x[0-9A-F]{2}>$`)
