package fingerprint

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
)

// fingerprintVersion changes when the same definition gives other ids than before.
const fingerprintVersion = "loaderd tokenizer 3"

// Settings has everything that determines ids in addition to the model in a tokenizer.json.
type Settings struct {
	Added          []added.Token
	SpecialAsText  bool
	Before, Behind []int32 // special tokens that are added around every text
}

// Fingerprint hashes everything that determines ids, as one JSON object with sorted names, without white space, in
// ASCII.
func (id *Identity) Fingerprint(s Settings) string {
	options, merges, vocab := id.reduce()
	h := sha256.New()
	w := bufio.NewWriterSize(h, 1<<16)
	writeList(w, `{"added_tokens":`, slices.Values(slices.SortedFunc(slices.Values(s.Added), byIDThenContent)),
		func(t added.Token) {
			fmt.Fprintf(w, "[%d,", t.ID)
			writeString(w, t.Content)
			fmt.Fprintf(w, ",%t,%t,%t,%t,%t]", t.SingleWord, t.Lstrip, t.Rstrip, t.Normalized, t.Special)
		})
	if id.hasMerges() {
		writeList(w, `,"merges":`, filterBy(id.steps, merges), func(x merge.Step) {
			w.WriteByte('[')
			writeString(w, id.entries[x.Left].Token)
			w.WriteByte(',')
			writeString(w, id.entries[x.Right].Token)
			w.WriteByte(']')
		})
	}
	for _, field := range []struct {
		name  string
		value any
	}{{"model", options}, {"normalizer", id.normalizer}, {"pre_tokenizer", id.preTokenizer},
		{"special_as_text", s.SpecialAsText}} {
		fmt.Fprintf(w, `,"%s":`, field.name)
		writeJSON(w, field.value)
	}
	if len(s.Before)+len(s.Behind) > 0 {
		writeList(w, `,"special_tokens":[`, slices.Values(s.Before), func(id int32) { fmt.Fprint(w, id) })
		writeList(w, `,`, slices.Values(s.Behind), func(id int32) { fmt.Fprint(w, id) })
		w.WriteByte(']')
	}
	io.WriteString(w, `,"version":"`+fingerprintVersion+`"`)
	id.writeVocab(w, vocab)
	w.WriteByte('}')
	w.Flush()
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// writeVocab writes the entries that are kept, or all pieces.
func (id *Identity) writeVocab(w *bufio.Writer, kept []bool) {
	if id.pieces != nil {
		writeList(w, `,"vocab":`, slices.Values(id.pieces), func(p format.Piece) {
			w.WriteByte('[')
			writeString(w, p.Token)
			fmt.Fprintf(w, `,"%016x"]`, math.Float64bits(p.Score))
		})
		return
	}
	writeList(w, `,"vocab":`, slices.Values(slices.SortedFunc(filterBy(id.entries, kept), byID)), func(v format.Entry) {
		w.WriteByte('[')
		w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(v.ID), 10))
		w.WriteByte(',')
		writeString(w, v.Token)
		w.WriteByte(']')
	})
}

func byIDThenContent(a, b added.Token) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Content, b.Content))
}

func byID(a, b format.Entry) int { return cmp.Compare(a.ID, b.ID) }

// filterBy returns the values whose element of counts is true.
func filterBy[T any](values []T, counts []bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i, v := range values {
			if counts[i] && !yield(v) {
				return
			}
		}
	}
}

// writeList writes a JSON list; element writes each of its elements.
func writeList[T any](w *bufio.Writer, before string, values iter.Seq[T], element func(T)) {
	w.WriteString(before)
	w.WriteByte('[')
	first := true
	for v := range values {
		if !first {
			w.WriteByte(',')
		}
		first = false
		element(v)
	}
	w.WriteByte(']')
}

// writeJSON writes the values of which components consist.
func writeJSON(w *bufio.Writer, value any) {
	switch v := value.(type) {
	case string:
		writeString(w, v)
	case []any:
		writeList(w, "", slices.Values(v), func(x any) { writeJSON(w, x) })
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
	default: // booleans and integers
		fmt.Fprint(w, v)
	}
}

// writeString writes a JSON string in ASCII. Characters that are not printable are written as \u and four hexadecimal
// digits.
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
			writeEscaped(w, hi)
			writeEscaped(w, lo)
		default:
			if short, ok := shortEscapes[r]; ok {
				w.WriteString(short)
			} else {
				writeEscaped(w, r)
			}
		}
	}
	w.WriteByte('"')
}

// writeEscaped writes a character of at most 16 bits as \u and four digits.
func writeEscaped(w *bufio.Writer, r rune) {
	const digits = "0123456789abcdef"
	w.Write(append(w.AvailableBuffer(), '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]))
}

var shortEscapes = map[rune]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
