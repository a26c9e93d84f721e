package unigram

import (
	"math"
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/trie"
)

// twoSums are the largest sums of two different sequences of pieces that end at a place.
type twoSums struct{ best, second float64 }

func (t *twoSums) add(sum float64) {
	if sum > t.best {
		t.best, sum = sum, t.best
	}
	t.second = max(t.second, sum)
}

// Gap returns by how much the best sequence of pieces for a text is better than any other, without the rounding of
// sums. The text is valid UTF-8.
func (s *Segmenter[F]) Gap(text []byte) float64 {
	m := s.model
	n := len(text)
	s.two = slices.Grow(s.two[:0], n+1)[:n+1]
	none := twoSums{math.Inf(-1), math.Inf(-1)}
	for i := range s.two {
		s.two[i] = none
	}
	s.two[0].best = 0
	for i := 0; i < n; {
		size := 1
		if text[i] >= utf8.RuneSelf {
			_, size = utf8.DecodeRune(text[i:])
		}
		from := s.two[i]
		hasSingle := false
		at := trie.Root
		for j := i; j < n; j++ {
			var ok bool
			if at, ok = m.pieces.Next(at, text[j]); !ok {
				break
			}
			if id := m.pieces.Value(at); id >= 0 {
				s.two[j+1].add(from.best + float64(m.scores[id]))
				s.two[j+1].add(from.second + float64(m.scores[id]))
				hasSingle = hasSingle || j+1 == i+size
			}
		}
		if !hasSingle {
			s.two[i+size].add(from.best + float64(m.unknownScore))
			s.two[i+size].add(from.second + float64(m.unknownScore))
		}
		i += size
	}
	return s.two[n].best - s.two[n].second
}
