// Package unigram encodes text by the pieces whose scores have the largest sum, as Unigram models do.
package unigram

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/trie"
)

// Piece is an element of the vocabulary. Its id is its index.
type Piece struct {
	Text  string
	Score float64
}

// Options are the options of a model.
type Options struct {
	Unknown  int32                 // id of the piece of unknown characters
	Bytes    *[256]int32           // ids of the pieces of bytes, -1 for missing ones; nil: no byte fallback
	MinScore float64               // of all pieces of the file
	Spell    func(s string) string // returns text as it is spelled in the file; nil: unchanged
}

// unknownPenalty is how much less than the lowest score an unknown character has.
const unknownPenalty = 10

// Model has the pieces. It is safe for concurrent use.
type Model struct {
	pieces *trie.Trie
	scores []float64
	Options
}

// New returns a model of pieces. Those without a text are never used. Of equal texts, the last one counts.
func New(pieces []Piece, o Options) (*Model, error) {
	m := &Model{Options: o, scores: make([]float64, len(pieces))}
	last := make(map[string]int32, len(pieces))
	for id, p := range pieces {
		if math.IsNaN(p.Score) {
			return nil, fmt.Errorf("model vocab: piece %d has no number as its score", id)
		}
		m.scores[id] = p.Score
		if p.Text != "" {
			last[p.Text] = int32(id)
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

// Segmenter encodes texts. It has the scratch space of one goroutine.
type Segmenter struct {
	model *Model
	node  []node
	back  []node
}

// node is the last piece of the best sequence of pieces that ends at a place.
type node struct {
	score float64
	start int32 // where the piece starts, or -1
	id    int32
}

// NewSegmenter returns a segmenter for one goroutine.
func (m *Model) NewSegmenter() *Segmenter { return &Segmenter{model: m} }

// maxKeptNodes is the maximum number of nodes for which scratch space is kept.
const maxKeptNodes = 1 << 16

// Append appends the ids of a text that is encoded as a whole. It is valid UTF-8.
func (s *Segmenter) Append(dst []int32, text []byte) []int32 {
	m := s.model
	n := len(text)
	s.node = slices.Grow(s.node[:0], n+1)[:n+1]
	nodes := s.node
	for i := range nodes {
		nodes[i] = node{start: -1}
	}
	unknownScore := m.MinScore - unknownPenalty
	for i := 0; i < n; {
		before := nodes[i].score
		size := 1
		if text[i] >= utf8.RuneSelf {
			_, size = utf8.DecodeRune(text[i:])
		}
		single := false
		at := trie.Root
		for j := i; j < n; j++ {
			var ok bool
			if at, ok = m.pieces.Next(at, text[j]); !ok {
				break
			}
			id := m.pieces.Value(at)
			if id < 0 {
				continue
			}
			to := &nodes[j+1]
			if score := m.scores[id] + before; to.start < 0 || score > to.score {
				*to = node{score, int32(i), id}
			}
			single = single || j+1 == i+size
		}
		if to := &nodes[i+size]; !single {
			if score := unknownScore + before; to.start < 0 || score > to.score {
				*to = node{score, int32(i), m.Unknown}
			}
		}
		i += size
	}
	dst = s.appendBest(dst, text)
	if cap(s.node) > maxKeptNodes {
		s.node, s.back = nil, nil
	}
	return dst
}

// appendBest appends the ids of the best sequence for the whole text, in which adjacent unknown pieces are one.
func (s *Segmenter) appendBest(dst []int32, text []byte) []int32 {
	s.back = s.back[:0]
	for end := len(text); end > 0; end = int(s.back[len(s.back)-1].start) {
		s.back = append(s.back, s.node[end])
	}
	end := 0
	for k := len(s.back) - 1; k >= 0; k-- {
		id := s.back[k].id
		start := int(s.back[k].start)
		for ; id == s.model.Unknown && k > 0 && s.back[k-1].id == id; k-- {
		}
		if end = len(text); k > 0 {
			end = int(s.back[k-1].start)
		}
		if id == s.model.Unknown {
			dst = s.model.appendUnknown(dst, text[start:end])
		} else {
			dst = append(dst, id)
		}
	}
	return dst
}

// appendUnknown appends the ids of text in unknown pieces: of a piece, of its bytes, or that of unknown text.
func (m *Model) appendUnknown(dst []int32, text []byte) []int32 {
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
