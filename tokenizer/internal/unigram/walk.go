package unigram

import (
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/trie"
)

// Segmenter encodes texts. It has the scratch space of one goroutine.
type Segmenter[F Score] struct {
	model  *Model[F]
	from   int       // the place in the text of the first node
	nodes  []node[F] // of the current block, and of the places that a piece from it may reach
	blocks []int     // where blocks start
	saved  []node[F] // the first nodes of the blocks after the first one
	two    []twoSums
}

// node is the last piece of the best sequence of pieces that ends at a place.
type node[F Score] struct {
	score F
	id    int32 // or unreached
}

const unreached = -1

// blockBytes is the number of bytes for which nodes exist at a time. Of a longer text, only the nodes at the starts of
// blocks are kept, and the others are computed a second time while the best sequence is read from its end.
const blockBytes = 1 << 16

// NewSegmenter returns a segmenter for one goroutine.
func (m *Model[F]) NewSegmenter() *Segmenter[F] { return &Segmenter[F]{model: m} }

// Walk calls yield for each piece of the best sequence for a text, from the last one to the first. The sum of the
// scores starts with base. It returns the sum of the whole text. The text is valid UTF-8.
func (s *Segmenter[F]) Walk(text []byte, base F, yield func(start, end int, id int32)) (sum F) {
	first := [1]node[F]{{score: base}}
	s.blocks, s.saved = append(s.blocks[:0], 0), s.saved[:0]
	next := s.encodeBlock(text, 0, first[:])
	for next < len(text) {
		tail := s.nodes[next-s.from:]
		n := len(s.saved)
		s.saved = append(s.saved, tail[:min(len(tail), s.model.longest+1)]...)
		s.blocks = append(s.blocks, next)
		next = s.encodeBlock(text, next, s.saved[n:])
	}
	sum = s.nodes[len(text)-s.from].score
	for end, k := len(text), len(s.blocks)-1; end > 0; k-- {
		if from := s.blocks[k]; from != s.from {
			before := first[:]
			if k > 0 {
				before = s.saved[(k-1)*(s.model.longest+1):][:s.model.longest+1]
			}
			s.encodeBlock(text, from, before)
		}
		for end > s.from {
			id := s.nodes[end-s.from].id
			start := end - s.model.lengthBefore(text[:end], id)
			yield(start, end, id)
			end = start
		}
	}
	if cap(s.saved) > blockBytes {
		s.saved = nil
	}
	return sum
}

// lengthBefore returns the number of bytes of the piece with an id at the end of text.
func (m *Model[F]) lengthBefore(text []byte, id int32) int {
	if id == m.UnknownCharacter() {
		_, size := utf8.DecodeLastRune(text)
		return size
	}
	return int(m.lengths[id])
}

// encodeBlock finds the best sequences of a block of text that starts at a place, given its first nodes. It returns
// the end of the block.
func (s *Segmenter[F]) encodeBlock(text []byte, from int, first []node[F]) (end int) {
	m := s.model
	n := min(len(text)-from, blockBytes+m.longest+utf8.UTFMax) + 1
	s.from, s.nodes = from, slices.Grow(s.nodes[:0], n)[:n]
	nodes := s.nodes
	for i := copy(nodes, first); i < n; i++ {
		nodes[i].id = unreached
	}
	text = text[from:]
	i := 0
	for end := min(len(text), blockBytes); i < end; {
		before := nodes[i].score
		if m.ResetAt != 0 && (before < -m.ResetAt || before > m.ResetAt) {
			nodes[i].score = 0
			for k := i + 1; k < min(n, i+m.longest+1); k++ {
				if nodes[k].id != unreached {
					nodes[k].score -= before
				}
			}
			before = 0
		}
		size := 1
		if text[i] >= utf8.RuneSelf {
			_, size = utf8.DecodeRune(text[i:])
		}
		hasSingle := false
		at := trie.Root
		for j := i; j < len(text); j++ {
			var ok bool
			if at, ok = m.pieces.Next(at, text[j]); !ok {
				break
			}
			id := m.pieces.Value(at)
			if id < 0 {
				continue
			}
			to := &nodes[j+1]
			if score := m.scores[id] + before; to.id == unreached || score > to.score {
				*to = node[F]{score, id}
			}
			hasSingle = hasSingle || j+1 == i+size
		}
		if to := &nodes[i+size]; !hasSingle {
			if score := m.unknownScore + before; to.id == unreached || score > to.score {
				*to = node[F]{score, m.UnknownCharacter()}
			}
		}
		i += size
	}
	return from + i
}
