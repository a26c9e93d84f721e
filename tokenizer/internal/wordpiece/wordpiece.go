// Package wordpiece encodes words by the longest tokens from left to right, as BERT does.
package wordpiece

import (
	"fmt"
	"unicode/utf8"

	"loaderd/tokenizer/internal/trie"
	"loaderd/tokenizer/internal/ucd"
)

// Model encodes words. It is safe for concurrent use.
type Model struct {
	tokens   *trie.Trie
	inside   uint32 // the node of the prefix of tokens within a word
	hasInner bool   // some token starts with the prefix
	unknown  int32
	maxRunes int
}

// Options are the options of the model in a tokenizer.json.
type Options struct {
	Unknown  int32  // id of the token of a word that no tokens cover
	Prefix   string // of tokens within a word
	MaxRunes int    // a word of more characters is unknown
}

// New returns a model with tokens that are distinct and not empty. It fails if one of them or all together have too
// many bytes.
func New(tokens []trie.Key, o Options) (*Model, error) {
	t, err := trie.New(tokens)
	if err != nil {
		return nil, fmt.Errorf("model vocab: %w", err)
	}
	m := &Model{tokens: t, unknown: o.Unknown, maxRunes: o.MaxRunes, hasInner: true}
	for i := 0; i < len(o.Prefix) && m.hasInner; i++ {
		m.inside, m.hasInner = t.Next(m.inside, o.Prefix[i])
	}
	return m, nil
}

// Append appends the ids of a word without the white space before it: none if nothing else is in it.
func (m *Model) Append(dst []int32, word []byte) []int32 {
	word = word[ucd.EndOfClass(word, 0, ucd.IsSpace):]
	if len(word) > m.maxRunes && utf8.RuneCount(word) > m.maxRunes {
		return append(dst, m.unknown)
	}
	start := len(dst)
	node, known := trie.Root, true
	for len(word) > 0 {
		n, id := 0, int32(0)
		if known {
			n, id = m.tokens.Longest(node, word)
		}
		if n == 0 {
			return append(dst[:start], m.unknown)
		}
		dst = append(dst, id)
		word = word[n:]
		node, known = m.inside, m.hasInner
	}
	return dst
}
