package sentencepiece

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/pairs"
	"loaderd/tokenizer/internal/trie"
)

// merges are the merges of a BPE model: each two adjacent symbols whose text together is a piece are merged into it, by
// the score of the piece, then from left to right. A symbol is the id of a piece, or one of a character without a
// piece.
type merges struct {
	model     *Model
	pairs     pairs.Table     // the piece that two symbols make
	rank      []uint32        // by piece; equal for equal scores
	runes     map[rune]uint32 // the symbols of characters
	ascii     [utf8.RuneSelf]uint32
	hasUnused bool
}

// none is the symbol of characters that are in no piece, and of what has been merged.
const none = pairs.None

func newMerges(m *Model) (*merges, error) {
	g := &merges{model: m, pairs: pairs.New(2 * len(m.texts)), runes: map[rune]uint32{},
		rank: scoreRanks(m.Pieces)}
	symbols := make(map[string]uint32, len(m.texts))
	for id, text := range m.texts {
		if text != "" && m.Pieces[id].Type != UserDefined {
			symbols[text] = uint32(id)
		}
	}
	next := uint32(len(m.texts))
	for _, text := range m.texts {
		for _, r := range text {
			if _, ok := g.runes[r]; ok {
				continue
			}
			symbol, ok := symbols[string(r)]
			if !ok {
				if symbol = next; symbol > pairs.SymbolMask {
					return nil, errors.New("too many characters without a piece")
				}
				next++
				symbols[string(r)] = symbol
			}
			g.runes[r] = symbol
		}
	}
	for id, text := range m.texts {
		if m.Pieces[id].Type == UserDefined {
			continue
		}
		g.hasUnused = g.hasUnused || m.Pieces[id].Type == Unused
		for i := range text {
			if i == 0 {
				continue
			}
			left, okL := symbols[text[:i]]
			right, okR := symbols[text[i:]]
			if okL && okR {
				g.pairs.Put(left, right, uint32(id))
			}
		}
	}
	for c := range g.ascii {
		g.ascii[c] = g.symbolOf(rune(c))
	}
	return g, nil
}

// scoreRanks returns the ranks of pieces: 0 for the largest score, and equal ones for equal scores.
func scoreRanks(pieces []Piece) []uint32 {
	order := make([]uint32, len(pieces))
	keys := make([]int32, len(pieces))
	for id, p := range pieces {
		// the order of 32-bit floats as integers, in which -0 is less than 0
		bits := int32(math.Float32bits(p.Score))
		order[id], keys[id] = uint32(id), bits^bits>>31&math.MaxInt32
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(keys[b], keys[a]) })
	ranks := make([]uint32, len(pieces))
	for i, id := range order {
		if ranks[id] = uint32(i); i > 0 && keys[id] == keys[order[i-1]] {
			ranks[id] = ranks[order[i-1]]
		}
	}
	return ranks
}

// symbolOf returns the symbol of a character.
func (g *merges) symbolOf(r rune) uint32 {
	if symbol, ok := g.runes[r]; ok {
		return symbol
	}
	return none
}

// symbol is a symbol of a text, linked with its neighbours: -1 if it has none.
type symbol struct {
	symbol     uint32
	prev, next int32
}

// merging is the scratch space for merging.
type merging struct {
	symbols []symbol
	heap    pairs.Heap
	// parts are the symbols that make an unused piece. They are the same in every text: until they are merged, nothing
	// is merged across the borders of the piece, so its characters merge as they do alone.
	parts map[uint32][2]uint32
}

// maxKept is the longest text, in characters, whose scratch space is kept.
const maxKept = 1 << 16

// append appends the ids of a text.
func (s *merging) append(g *merges, dst []int32, text []byte) []int32 {
	s.start(g, text)
	for i := range len(s.symbols) - 1 {
		s.push(g, int32(i))
	}
	for len(s.heap) > 0 {
		rank, at := s.heap.Pop()
		left := &s.symbols[at]
		made := s.madeAt(g, at)
		if made == none || g.rank[made] != rank {
			continue // one of the two has been merged since
		}
		right := &s.symbols[left.next]
		left.symbol, left.next, right.symbol = made, right.next, none
		if left.next >= 0 {
			s.symbols[left.next].prev = at
		}
		if left.prev >= 0 {
			s.push(g, left.prev)
		}
		s.push(g, at)
	}
	for at := int32(0); at >= 0; at = s.symbols[at].next {
		dst = s.appendPiece(g, dst, s.symbols[at].symbol, 0)
	}
	if cap(s.symbols) > maxKept {
		s.symbols, s.heap = nil, nil
	}
	return dst
}

// start initializes the symbols: the characters of a text, and user-defined symbols, which are not merged.
func (s *merging) start(g *merges, text []byte) {
	s.symbols, s.heap = s.symbols[:0], s.heap[:0]
	if g.hasUnused {
		s.parts = map[uint32][2]uint32{}
	}
	for len(text) > 0 {
		var x uint32
		size, id := g.model.characters.Longest(trie.Root, text)
		switch {
		case size > 0:
			x = uint32(id)
		case text[0] < utf8.RuneSelf:
			x, size = g.ascii[text[0]], 1
		default:
			var r rune
			r, size = utf8.DecodeRune(text)
			x = g.symbolOf(r)
		}
		n := int32(len(s.symbols))
		s.symbols, text = append(s.symbols, symbol{x, n - 1, n + 1}), text[size:]
	}
	s.symbols[len(s.symbols)-1].next = -1
}

// madeAt returns the piece that the symbol at a place and the next one make, or none.
func (s *merging) madeAt(g *merges, at int32) uint32 {
	left := s.symbols[at]
	if left.symbol == none || left.next < 0 || s.symbols[left.next].symbol == none {
		return none
	}
	return g.pairs.Rank(left.symbol, s.symbols[left.next].symbol)
}

// push adds the pair at a place to the heap, if it makes a piece.
func (s *merging) push(g *merges, at int32) {
	made := s.madeAt(g, at)
	if made == none {
		return
	}
	s.heap.Push(g.rank[made], at)
	if g.hasUnused && g.model.Pieces[made].Type == Unused {
		s.parts[made] = [2]uint32{s.symbols[at].symbol, s.symbols[s.symbols[at].next].symbol}
	}
}

// maxDepth is the depth at which SentencePiece stops to replace unused pieces.
const maxDepth = 100

// appendPiece appends the id of a symbol, or those of its parts if its piece is unused.
func (s *merging) appendPiece(g *merges, dst []int32, x uint32, depth int) []int32 {
	if int(x) >= len(g.model.Pieces) {
		return append(dst, g.model.unknownID())
	}
	if depth > maxDepth || g.model.Pieces[x].Type != Unused {
		return append(dst, int32(x))
	}
	parts, ok := s.parts[x]
	if !ok {
		return append(dst, g.model.unknownID())
	}
	return s.appendPiece(g, s.appendPiece(g, dst, parts[0], depth+1), parts[1], depth+1)
}
