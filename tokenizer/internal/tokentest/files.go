// Package tokentest makes files and texts for the tests of the tokenizer and its packages, and splits texts by the
// definition, without optimization; only tests import it.
package tokentest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/pretokenize"
)

// Object is a JSON object.
type Object = map[string]any

// Spell writes bytes in the alphabet of a tokenizer.json.
func Spell(text string) string { return pretokenize.SpellBytes(text) }

// SmallFile returns a tokenizer.json with all bytes and the given merges, whose results follow the bytes in the
// vocabulary.
func SmallFile(merges ...[2]string) Object {
	vocab := Object{}
	for b := range 256 {
		vocab[Spell(string([]byte{byte(b)}))] = b
	}
	var list []any
	for _, m := range merges {
		if made := Spell(m[0] + m[1]); vocab[made] == nil {
			vocab[made] = len(vocab)
		}
		list = append(list, Spell(m[0])+" "+Spell(m[1]))
	}
	return Object{
		"version":       "1.0",
		"added_tokens":  []any{},
		"normalizer":    nil,
		"pre_tokenizer": Object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"model":         Object{"type": "BPE", "vocab": vocab, "merges": append([]any{}, list...)},
	}
}

// Added returns an added token of a file with the given flags set.
func Added(id int, content string, flags ...string) Object {
	a := Object{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		"special": false}
	for _, f := range flags {
		a[f] = true
	}
	return a
}

// ABC are merges of a few letters.
var ABC = [][2]string{{"a", "b"}, {"b", "c"}, {"ab", "c"}, {" ", "ab"}, {"bc", "bc"}, {"a", "a"}, {"aa", "aa"}}

// ReplaceNormalizer returns a normalizer.
func ReplaceNormalizer(from, to string) Object {
	return Object{"type": "Replace", "pattern": Object{"String": from}, "content": to}
}

// SplitPreTokenizer returns the pre-tokenizer of a file with these parts.
func SplitPreTokenizer(parts ...string) Object {
	var list []any
	for _, part := range parts {
		if part == pretokenize.DigitsPart {
			list = append(list, Object{"type": "Digits", "individual_digits": true})
		} else {
			list = append(list, Object{"type": "Split", "pattern": Object{"Regex": part}, "behavior": "Isolated",
				"invert": false})
		}
	}
	list = append(list, Object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})
	return Object{"type": "Sequence", "pretokenizers": list}
}

// RandomMerges returns n merges of a small alphabet; if jumbled, their order differs from any order of training.
func RandomMerges(r *rand.Rand, n int, jumbled bool) [][2]string {
	tokens := []string{"a", "b", "c", " ", "\n", "1", "'", "s", "\xe4", "\xb8", "\xad", "\xcc", "\x81", "/"}
	var merges [][2]string
	known := map[string]bool{}
	for len(merges) < n {
		a, b := tokens[r.IntN(len(tokens))], tokens[r.IntN(len(tokens))]
		if len(a)+len(b) > 12 || known[a+b] && !jumbled {
			n--
			continue
		}
		if !known[a+b] {
			known[a+b] = true
			tokens = append(tokens, a+b)
		}
		merges = append(merges, [2]string{a, b})
	}
	if jumbled {
		r.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
	}
	return merges
}

// SplitPart returns a pre-tokenizer that splits at the matches of a pattern.
func SplitPart(pattern Object, behavior string, invert bool) Object {
	return Object{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
}

// SequencePreTokenizer returns a sequence of pre-tokenizers.
func SequencePreTokenizer(list ...any) Object {
	return Object{"type": "Sequence", "pretokenizers": list}
}

// ByteLevel returns the pre-tokenizer that writes bytes as characters.
func ByteLevel(prefixSpace, useRegex bool) Object {
	return Object{"type": "ByteLevel", "add_prefix_space": prefixSpace, "trim_offsets": true, "use_regex": useRegex}
}

// JSON returns the content of a file.
func JSON(t testing.TB, file any) []byte {
	t.Helper()
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Base64 returns the bytes of a token as in rank files.
func Base64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// Definition reads a file.
func Definition(t testing.TB, file Object) *definition.Definition {
	t.Helper()
	d, err := definition.FromJSON(bytes.NewReader(JSON(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Builtin returns the definition of a built-in tokenizer, without caching.
func Builtin(t testing.TB, name string) *definition.Definition {
	t.Helper()
	d, err := definition.Read(name, definition.RankOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
