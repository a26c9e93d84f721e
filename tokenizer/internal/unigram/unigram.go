// Package unigram encodes text by the pieces whose scores have the largest sum, as Unigram models do.
package unigram

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/trie"
)

// Score is the type of scores and of their sums. Its precision is part of the result: Hugging Face tokenizers adds
// numbers of 64 bits, SentencePiece those of 32 bits.
type Score interface{ float32 | float64 }

// Piece is an element of the vocabulary. Its id is its index.
type Piece[F Score] struct {
	Text  string
	Score F
}

// Options are the options of a model.
type Options[F Score] struct {
	Unknown  int32                 // id of the piece of unknown characters
	Bytes    *[256]int32           // ids of the pieces of bytes, -1 for missing ones; nil: no byte fallback
	MinScore F                     // of all pieces of the file
	Spell    func(s string) string // returns text as it is spelled in the file; nil: unchanged
	// ResetAt is the absolute value of a sum beyond which the sums of all paths are reduced by it; 0: none.
	ResetAt F
}

// unknownPenalty is how much less than the lowest score an unknown character has.
const unknownPenalty = 10

// Model has the pieces. It is safe for concurrent use.
type Model[F Score] struct {
	pieces  *trie.Trie
	scores  []F
	lengths []int32 // bytes of pieces
	longest int     // bytes of the longest piece or character
	Options[F]
	unknownScore F
}

// New returns a model of pieces. Those without a text are never used. Of equal texts, the last one counts.
func New[F Score](pieces []Piece[F], o Options[F]) (*Model[F], error) {
	m := &Model[F]{Options: o, scores: make([]F, len(pieces)), lengths: make([]int32, len(pieces)),
		longest: utf8.UTFMax, unknownScore: o.MinScore - unknownPenalty}
	last := make(map[string]int32, len(pieces))
	for id, p := range pieces {
		if math.IsNaN(float64(p.Score)) {
			return nil, fmt.Errorf("model vocab: piece %d has no number as its score", id)
		}
		m.scores[id], m.lengths[id] = p.Score, int32(len(p.Text))
		if p.Text != "" {
			last[p.Text] = int32(id)
			m.longest = max(m.longest, len(p.Text))
		}
	}
	keys := make([]trie.Key, 0, len(last))
	for text, id := range last {
		keys = append(keys, trie.Key{Text: text, Value: id})
	}
	var err error
	if m.pieces, err = trie.New(keys); err != nil {
		return nil, fmt.Errorf("model vocab: %w", err)
	}
	return m, nil
}

// UnknownCharacter is the id that Walk gives a character without a piece: the number of pieces.
func (m *Model[F]) UnknownCharacter() int32 { return int32(len(m.scores)) }

// ScoreOf returns the score of a piece.
func (m *Model[F]) ScoreOf(id int32) F { return m.scores[id] }

// UnknownScore returns the score of a character without a piece.
func (m *Model[F]) UnknownScore() F { return m.unknownScore }

// Append appends the ids of a text that is encoded as a whole. It is valid UTF-8.
func (s *Segmenter[F]) Append(dst []int32, text []byte) []int32 {
	m := s.model
	from := len(dst)
	unknownStart, unknownEnd := 0, -1
	endUnknown := func() {
		if unknownEnd >= 0 {
			n := len(dst)
			dst = m.appendUnknown(dst, text[unknownStart:unknownEnd])
			slices.Reverse(dst[n:])
			unknownEnd = -1
		}
	}
	s.Walk(text, 0, func(start, end int, id int32) {
		if id == m.Unknown || id == m.UnknownCharacter() { // adjacent unknown pieces are one
			if unknownEnd < 0 {
				unknownEnd = end
			}
			unknownStart = start
			return
		}
		endUnknown()
		dst = append(dst, id)
	})
	endUnknown()
	slices.Reverse(dst[from:])
	return dst
}

// appendUnknown appends the ids of text in unknown pieces: of a piece, of its bytes, or that of unknown text.
func (m *Model[F]) appendUnknown(dst []int32, text []byte) []int32 {
	if n, id := m.pieces.Longest(trie.Root, text); n == len(text) {
		return append(dst, id)
	}
	if m.Bytes == nil {
		return append(dst, m.Unknown)
	}
	spelled := string(text)
	if m.Spell != nil {
		spelled = m.Spell(spelled)
	}
	start := len(dst)
	for _, b := range []byte(spelled) {
		id := m.Bytes[b]
		if id < 0 {
			return append(dst[:start], m.Unknown)
		}
		dst = append(dst, id)
	}
	return dst
}
