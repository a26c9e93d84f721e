package sentencepiece_test

import (
	"slices"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/sentencepiece"
	"loaderd/tokenizer/internal/tokentest"
)

// A damaged file is an error, or a model that encodes any text and gives the same ids word by word and as a whole.
func FuzzFile(f *testing.F) {
	for kind := range uint64(4) {
		for k := range 8 {
			f.Add(tokentest.SentencePiece(tokentest.SentencePieceOptions{Kind: kind + 1, ByteFallback: k&1 > 0,
				Suffix: k&2 > 0, KeepSpaces: k&4 > 0, NoPrefix: k&5 > 0, Pieces: []tokentest.Piece{{Text: "▁", Score: -2},
					{Text: "a", Score: -3}, {Text: "b", Score: -3}, {Text: "ab", Score: -6}, {Text: "▁a", Score: -4},
					{Text: "<x>", Type: 4}, {Text: "ba", Score: -3, Type: uint64(k) & 2 * 5 / 2}, {Text: "中", Score: -9}}}),
				[]byte("abab ba <x>a  b中é "))
		}
	}
	f.Fuzz(func(t *testing.T, data, text []byte) {
		file, err := sentencepiece.Parse(data)
		if err != nil {
			return
		}
		m, err := sentencepiece.New(file)
		if err != nil || !utf8.Valid(text) {
			return
		}
		ids := encode(m, text, m.Kind != sentencepiece.Word)
		if words := encode(m, text, false); !slices.Equal(ids, words) {
			t.Errorf("%q: ids %v, word by word %v", text, ids, words)
		}
		m.AddedSpaces(ids)
		for _, id := range ids {
			m.Decoded(id)
		}
	})
}

// encode encodes a text as one word, or in words.
func encode(m *sentencepiece.Model, text []byte, whole bool) (ids []int32) {
	e, segmenter := m.NewEncoder(), m.NewSegmenter()
	s := e.Start(text)
	var words []int32
	for from := 0; from < len(s); {
		end := from + 1
		for end < len(s) && (whole || !m.Cuts().Has(s[end-1], s[end])) {
			end++
		}
		words = segmenter.Append(words, s[from:end])
		from = end
	}
	return e.Append(nil, words, s)
}

// Every kind of model encodes some texts; FuzzFile changes the models and the texts.
func TestFuzzSeedsLoad(t *testing.T) {
	for kind := range uint64(4) {
		file, err := sentencepiece.Parse(tokentest.SentencePiece(tokentest.SentencePieceOptions{Kind: kind + 1,
			Pieces: []tokentest.Piece{{Text: "a"}}}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sentencepiece.New(file); err != nil {
			t.Fatal(err)
		}
	}
}
