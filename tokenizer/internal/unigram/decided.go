package unigram

import (
	"math"
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/trie"
)

// twoSums are the largest sums of two different sequences of pieces that end at a place.
type twoSums struct {
	best, second float64
	id           int32 // the last piece of the best one
}

// offer adds the sequences of from with one more piece.
func (t *twoSums) offer(from *twoSums, score float64, id int32) {
	if sum := from.best + score; sum > t.best {
		t.second = max(t.best, from.second+score)
		t.best, t.id = sum, id
	} else {
		t.second = max(t.second, sum)
	}
}

// AppendDecided appends the ids of the best sequence of pieces for a text if its sum is larger than that of any other
// sequence by more than margin, without the rounding of sums. The text is valid UTF-8.
func (s *Segmenter[F]) AppendDecided(dst []int32, text []byte, margin float64) (ids []int32, ok bool) {
	m := s.model
	n := len(text)
	s.two = slices.Grow(s.two[:0], n+1)[:n+1]
	for i := range s.two {
		s.two[i] = twoSums{best: math.Inf(-1), second: math.Inf(-1)}
	}
	s.two[0].best = 0
	for i := 0; i < n; {
		size := 1
		if text[i] >= utf8.RuneSelf {
			_, size = utf8.DecodeRune(text[i:])
		}
		from := &s.two[i]
		hasSingle := false
		at := trie.Root
		for j := i; j < n; j++ {
			var ok bool
			if at, ok = m.pieces.Next(at, text[j]); !ok {
				break
			}
			if id := m.pieces.Value(at); id >= 0 {
				s.two[j+1].offer(from, float64(m.scores[id]), id)
				hasSingle = hasSingle || j+1 == i+size
			}
		}
		if !hasSingle {
			s.two[i+size].offer(from, float64(m.unknownScore), m.UnknownCharacter())
		}
		i += size
	}
	if !(s.two[n].best-s.two[n].second > margin) {
		return dst, false
	}
	from := len(dst)
	for end := n; end > 0; {
		id := s.two[end].id
		dst = append(dst, id)
		end -= m.lengthBefore(text[:end], id)
	}
	slices.Reverse(dst[from:])
	return dst, true
}
