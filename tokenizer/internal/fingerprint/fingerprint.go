package fingerprint

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf16"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
)

// fingerprintVersion changes when the same definition begins to give other ids.
const fingerprintVersion = "loaderd tokenizer 3"

// Shapes is what shapes ids beside what a tokenizer.json says of its model.
type Shapes struct {
	Added          []added.Token
	SpecialAsText  bool
	Before, Behind []int32 // special tokens that are added around every text
}

// Fingerprint hashes everything that shapes ids, as one JSON object with sorted names, without white space, in ASCII.
func (id *Identity) Fingerprint(s Shapes) string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 1<<16)
	list(w, `{"added_tokens":`, slices.SortedFunc(slices.Values(s.Added), byIDThenContent), func(t added.Token) {
		fmt.Fprintf(w, "[%d,", t.ID)
		writeString(w, t.Content)
		fmt.Fprintf(w, ",%t,%t,%t,%t,%t]", t.SingleWord, t.Lstrip, t.Rstrip, t.Normalized, t.Special)
	})
	list(w, `,"merges":`, id.merges, func(m merge.Rule) {
		w.WriteByte('[')
		writeString(w, m.Left)
		w.WriteByte(',')
		writeString(w, m.Right)
		w.WriteByte(']')
	})
	for _, field := range []struct {
		name  string
		value any
	}{{"model", id.options}, {"normalizer", id.normalizer}, {"pre_tokenizer", id.preTokenizer}, {"special_as_text", s.SpecialAsText}} {
		fmt.Fprintf(w, `,"%s":`, field.name)
		writeJSON(w, field.value)
	}
	if len(s.Before)+len(s.Behind) > 0 {
		list(w, `,"special_tokens":[`, s.Before, func(id int32) { fmt.Fprint(w, id) })
		list(w, `,`, s.Behind, func(id int32) { fmt.Fprint(w, id) })
		w.WriteByte(']')
	}
	list(w, `,"version":"`+fingerprintVersion+`","vocab":`, id.vocab, func(v format.Entry) {
		fmt.Fprintf(w, "[%d,", v.ID)
		writeString(w, v.Token)
		w.WriteByte(']')
	})
	w.WriteByte('}')
	w.Flush()
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func byIDThenContent(a, b added.Token) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Content, b.Content))
}

// list writes a list of JSON, each of its elements by element.
func list[T any](w *bufio.Writer, before string, values []T, element func(T)) {
	w.WriteString(before)
	w.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			w.WriteByte(',')
		}
		element(v)
	}
	w.WriteByte(']')
}

// writeJSON writes the values that components are made of.
func writeJSON(w *bufio.Writer, value any) {
	switch v := value.(type) {
	case string:
		writeString(w, v)
	case []any:
		list(w, "", v, func(x any) { writeJSON(w, x) })
	case map[string]any:
		for i, name := range slices.Sorted(maps.Keys(v)) {
			w.WriteByte("{,"[min(i, 1)])
			writeString(w, name)
			w.WriteByte(':')
			writeJSON(w, v[name])
		}
		if len(v) == 0 {
			w.WriteByte('{')
		}
		w.WriteByte('}')
	case nil:
		io.WriteString(w, "null")
	default: // booleans and whole numbers
		fmt.Fprint(w, v)
	}
}

// writeString writes a string of JSON in ASCII: what is not printable as \u and four hexadecimal digits.
func writeString(w *bufio.Writer, s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.WriteByte('\\')
			w.WriteByte(byte(r))
		case r >= ' ' && r <= '~':
			w.WriteByte(byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(w, `\u%04x\u%04x`, hi, lo)
		default:
			if short, ok := shortEscapes[r]; ok {
				w.WriteString(short)
			} else {
				fmt.Fprintf(w, `\u%04x`, r)
			}
		}
	}
	w.WriteByte('"')
}

var shortEscapes = map[rune]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
