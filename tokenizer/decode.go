package tokenizer

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// decoder is the way from tokens back to text of a file whose merges begin with characters. It shapes no ids: what is not
// known of a file's decoder is left out.
type decoder struct {
	replace    []replacement
	bytes      bool // <0x0A> is a byte
	start      int  // spaces that are dropped at the start of the text
	firstToken bool // all spaces that the first token begins with are dropped
}

type replacement struct{ from, to string }

func readDecoder(c map[string]any) (d decoder) {
	text := func(m map[string]any, field string) string {
		s, _ := m[field].(string)
		return s
	}
	switch c["type"] {
	case "Sequence":
		list, _ := c["decoders"].([]any)
		for _, x := range list {
			part, _ := x.(map[string]any)
			one := readDecoder(part)
			d.replace = append(d.replace, one.replace...)
			d.bytes = d.bytes || one.bytes
			d.start += one.start
			d.firstToken = d.firstToken || one.firstToken
		}
	case "Replace":
		pattern, _ := c["pattern"].(map[string]any)
		if from := text(pattern, "String"); from != "" {
			d.replace = []replacement{{from, text(c, "content")}}
		}
	case "ByteFallback":
		d.bytes = true
	case "Strip":
		if n, ok := wholeID(c["start"]); ok && text(c, "content") == " " {
			d.start = int(n)
		}
	case "Metaspace":
		if mark := text(c, "replacement"); mark != "" {
			d.replace = []replacement{{mark, " "}}
		}
		d.firstToken = c["prepend_scheme"] != "never" && c["add_prefix_space"] != false
	}
	return d
}

// text is what a token stands for inside a text.
func (d decoder) text(token string) string {
	if d.bytes && byteToken.MatchString(token) {
		b, _ := strconv.ParseUint(token[3:5], 16, 8)
		return string([]byte{byte(b)})
	}
	for _, r := range d.replace {
		token = strings.ReplaceAll(token, r.from, r.to)
	}
	return token
}

// decoding is the way back from ids.
type decoding struct {
	decoded []string // id -> bytes
	is      []bool   // id -> whether there is such a token
	decoder decoder
}

func newDecoding(d *definition) (m decoding) {
	set := func(id int32, s string) {
		if grow := int(id) + 1 - len(m.decoded); grow > 0 {
			m.decoded = append(m.decoded, make([]string, grow)...)
			m.is = append(m.is, make([]bool, grow)...)
		}
		m.decoded[id], m.is[id] = s, true
	}
	if d.characters == nil {
		for s, id := range d.tokens {
			set(id, s)
		}
		for s, id := range d.names {
			set(id, s)
		}
		for _, a := range d.added {
			set(a.id, a.content)
		}
		return m
	}
	m.decoder = d.decoder
	for _, v := range d.identity.entries {
		set(v.id, m.decoder.text(v.token))
	}
	steps := newStepper(d.normalize)
	for _, a := range d.added {
		content := a.content
		if a.normalized {
			content = string(steps.normalize([]byte(content)))
		}
		set(a.id, m.decoder.text(content))
	}
	return m
}

// known tells whether an id is that of a token.
func (m *decoding) known(id int32) bool { return id >= 0 && int(id) < len(m.is) && m.is[id] }

// Decode appends the bytes that the ids of a text stand for. An id without a token is an error that names its position.
func (m *Model) Decode(dst []byte, ids []int32) ([]byte, error) {
	n := len(dst)
	dst, err := m.DecodePart(dst, ids)
	if err != nil || len(ids) == 0 {
		return dst, err
	}
	drop := m.decoder.start
	if m.decoder.firstToken {
		drop = len(m.decoded[ids[0]])
	}
	text := dst[n:]
	spaces := len(text) - len(bytes.TrimLeft(text, " "))
	return append(dst[:n], text[min(drop, spaces):]...), nil
}

// DecodePart is Decode for ids from within a text: nothing is dropped at its start.
func (m *Model) DecodePart(dst []byte, ids []int32) ([]byte, error) {
	for i, id := range ids {
		if !m.known(id) {
			return dst, fmt.Errorf("decode ids: id %d at position %d is not in the vocabulary of %s (%d ids)", id, i, m.name, m.VocabSize())
		}
		dst = append(dst, m.decoded[id]...)
	}
	return dst, nil
}
