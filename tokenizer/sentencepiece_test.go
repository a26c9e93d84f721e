package tokenizer

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/tokentest"
)

// randomModel returns a SentencePiece model of each kind, with pieces of goldenTexts. python/tests compares such models
// with SentencePiece.
func randomModel(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 2027))
	o := tokentest.SentencePieceOptions{Kind: 1 + seed%4, ByteFallback: seed%3 == 0, Suffix: seed%5 == 0,
		KeepSpaces: seed%2 == 0, NoPrefix: seed%7 == 0, Unescaped: seed%11 == 10 && seed%4 != 2}
	seen := map[string]bool{}
	for range 200 {
		word := goldenWord(r)
		if r.IntN(2) == 0 {
			word = []string{"▁" + word, word + "▁"}[seed%5/4]
		}
		if !seen[word] {
			p := tokentest.Piece{Text: word, Score: -float32(1 + r.IntN(300))}
			if r.IntN(20) == 0 {
				p.Type = 4 + uint64(r.IntN(2)) // user-defined or unused
			}
			o.Pieces = append(o.Pieces, p)
		}
		seen[word] = true
	}
	return tokentest.SentencePiece(o)
}

func goldenModels() map[string][]byte {
	models := map[string][]byte{}
	for seed := range uint64(24) {
		models[fmt.Sprint("SentencePiece ", seed)] = randomModel(seed)
	}
	return models
}

func loadModel(t testing.TB, model []byte) *Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokenizer.model")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The ids of a text do not depend on earlier texts of the encoder, or on the size of the parts in which it is encoded.
func TestSentencePiece_CachesDoNotChangeIDs(t *testing.T) {
	for seed := range uint64(8) {
		m := loadModel(t, randomModel(seed))
		texts := goldenTexts()[:60]
		texts = append(texts, bytes.Join(texts, []byte(" ")))
		e := m.NewEncoder()
		for range 2 {
			for _, text := range texts {
				if fresh := m.NewEncoder().Encode(nil, text); !slices.Equal(e.Encode(nil, text), fresh) {
					t.Fatalf("model %d: %.60q has other ids", seed, text)
				}
			}
		}
	}
}

// Every proper prefix of a model is rejected as truncated.
func TestSentencePiece_TruncatedFiles(t *testing.T) {
	model := randomModel(1)
	for n := 1; n < len(model); n++ {
		_, err := definition.FromSentencePiece(bytes.NewReader(model[:n]))
		if err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Fatalf("%d of %d bytes: %v", n, len(model), err)
		}
	}
}

// Damaged files are refused, with the place and the reason.
func TestSentencePiece_DamagedFiles(t *testing.T) {
	pieces := func(p ...tokentest.Piece) tokentest.SentencePieceOptions {
		return tokentest.SentencePieceOptions{Pieces: append(p, tokentest.Piece{Text: "a"})}
	}
	long := pieces(tokentest.Piece{Text: strings.Repeat("x", 600)})
	for want, o := range map[string]tokentest.SentencePieceOptions{
		`piece 4 "a": it occurs twice`:        pieces(tokentest.Piece{Text: "a"}),
		`piece 3 "": it is empty`:             pieces(tokentest.Piece{}),
		`2 pieces for unknown text`:           pieces(tokentest.Piece{Text: "u", Type: 2}),
		`piece 3 "<0x00>": it is a byte, but`: pieces(tokentest.Piece{Text: "<0x00>", Type: 6}),
		`piece 3: field 1 is not text`:        pieces(tokentest.Piece{Text: "\xff"}),
		`piece 3 has 600 bytes`:               long,
		`its score is not finite`:             pieces(tokentest.Piece{Text: "b", Score: float32(math.Inf(1))}),
		`precompiled_charsmap: a trie of`:     {Pieces: pieces().Pieces, Charsmap: []byte("abcdefgh")},
		`no pieces for text`:                  {},
		`without escape_whitespaces`:          {Pieces: pieces().Pieces, Kind: 3, Unescaped: true},
	} {
		_, err := definition.FromSentencePiece(bytes.NewReader(tokentest.SentencePiece(o)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The ids are those of SentencePiece for texts and models by hand.
func TestSentencePiece_IDs(t *testing.T) {
	pieces := []tokentest.Piece{{Text: "▁", Score: -2}, {Text: "a", Score: -3}, {Text: "b", Score: -3},
		{Text: "ab", Score: -4}, {Text: "▁a", Score: -4}, {Text: "<x>", Type: 4}}
	unigram := tokentest.SentencePieceOptions{Pieces: pieces}
	bpe := tokentest.SentencePieceOptions{Pieces: pieces, Kind: 2, ByteFallback: true}
	equal := tokentest.SentencePieceOptions{Kind: 2, NoPrefix: true, Pieces: []tokentest.Piece{{Text: "a", Score: -9},
		{Text: "b", Score: -9}, {Text: "ab", Score: -4}, {Text: "ba", Score: -4}, {Text: "aba", Score: -5, Type: 5}}}
	for _, c := range []struct {
		o    tokentest.SentencePieceOptions
		text string
		want []int32
	}{
		{unigram, " ab  a ", []int32{3, 6, 7}}, // "▁"+"ab" is -6, "▁a"+"b" is -7
		{unigram, "<x>cc<s>", []int32{3, 8, 0}},
		{bpe, "ab", []int32{7, 5}}, // equal scores: from the left
		{bpe, "<x>é", []int32{3, 8, 9 + 0xC3, 9 + 0xA9}},
		{bpe, "\n", []int32{3, 9 + 10}},
		{equal, "bab", []int32{6, 4}},
		{equal, "abb aba", []int32{5, 4, 0, 5, 3}}, // the unused piece becomes its parts
	} {
		m := loadModel(t, tokentest.SentencePiece(c.o))
		if have := m.NewEncoder().Encode(nil, []byte(c.text)); !slices.Equal(have, c.want) {
			t.Errorf("%q: ids %v, want %v", c.text, have, c.want)
		}
		if end, ok := m.EndOfText(); !ok || end != (EndToken{2, "</s>", "eos_piece"}) {
			t.Errorf("end of text %v", end)
		}
	}
	m := loadModel(t, tokentest.SentencePiece(bpe))
	text, err := m.Decode(nil, []int32{1, 3, 7, 9 + 0xC3, 9 + 0xA9, 0, 2})
	if err != nil || string(text) != "aé ⁇ " {
		t.Errorf("decoded %q, %v", text, err)
	}
}
