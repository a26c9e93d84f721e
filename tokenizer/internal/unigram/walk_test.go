package unigram_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/unigram"
)

// naive returns the ids of the best pieces, with a node for every byte of the text. Unknown characters have the id -1.
func naive[F unigram.Score](pieces []unigram.Piece[F], minScore F, text string) []int32 {
	type node struct {
		score F
		start int
		id    int32
	}
	nodes := make([]node, len(text)+1)
	for i := range nodes {
		nodes[i].start = -1
	}
	for i, r := range text {
		single := false
		offer := func(end int, score F, id int32) {
			if score += nodes[i].score; nodes[end].start < 0 || score > nodes[end].score {
				nodes[end] = node{score, i, id}
			}
		}
		for length := 1; length <= 8 && i+length <= len(text); length++ {
			id := slices.IndexFunc(pieces, func(p unigram.Piece[F]) bool { return p.Text == text[i:i+length] })
			if id >= 0 {
				offer(i+length, pieces[id].Score, int32(id))
				single = single || length == utf8.RuneLen(r)
			}
		}
		if !single {
			offer(i+utf8.RuneLen(r), minScore-10, -1)
		}
	}
	var ids []int32
	for end := len(text); end > 0; end = nodes[end].start {
		ids = append(ids, nodes[end].id)
	}
	slices.Reverse(ids)
	return ids
}

// Texts longer than the nodes that are kept, without a place that all good sequences share, have the same pieces.
func testLongTexts[F unigram.Score](t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, letters := range []string{"a", "ab", "abcé中x"} {
		var pieces []unigram.Piece[F]
		minScore := F(0)
		for _, text := range []string{"a", "aa", "aaaa", "ab", "ba", "b", "bcé", "é", "中", "中中", "c", "cab"} {
			p := unigram.Piece[F]{Text: text, Score: -F(r.Float64() * 9)}
			pieces, minScore = append(pieces, p), min(minScore, p.Score)
		}
		m, err := unigram.New(pieces, unigram.Options[F]{Unknown: -1, MinScore: minScore})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSegmenter()
		for _, n := range []int{1, 70, 65_537, 140_000} {
			var b strings.Builder
			for choice := []rune(letters); b.Len() < n; {
				b.WriteRune(choice[r.IntN(len(choice))])
			}
			var have []int32
			s.Walk([]byte(b.String()), 0, func(_, _ int, id int32) {
				if id == m.UnknownCharacter() {
					id = -1
				}
				have = append(have, id)
			})
			slices.Reverse(have)
			if !slices.Equal(have, naive(pieces, minScore, b.String())) {
				t.Errorf("%d bytes of %q have other pieces", n, letters)
			}
		}
	}
}

func TestWalk_LongTexts(t *testing.T) {
	t.Run("float32", testLongTexts[float32])
	t.Run("float64", testLongTexts[float64])
}

// The memory for a long text without a place to split it is bounded.
func TestWalk_MemoryIsBounded(t *testing.T) {
	m, err := unigram.New([]unigram.Piece[float64]{{Text: "a", Score: -1}, {Text: "aa", Score: -1.5}},
		unigram.Options[float64]{Unknown: -1, MinScore: -2})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("a", 4<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m.NewSegmenter().Walk(text, 0, func(int, int, int32) {})
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 4<<20 {
		t.Errorf("%d bytes for a text of %d bytes", bytes, len(text))
	}
}
