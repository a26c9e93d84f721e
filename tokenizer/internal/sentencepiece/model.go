// Package sentencepiece reads SentencePiece models (tokenizer.model) and encodes text as SentencePiece does: Unigram,
// BPE, word and character models.
//
// SentencePiece adds scores as numbers of 32 bits from the start of a text, so rounding may let the pieces of a word of
// a Unigram model depend on the text before it. Words whose pieces rounding cannot change are encoded separately and
// cached. The others are encoded with the sum of the text before them.
package sentencepiece

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/trie"
	"loaderd/tokenizer/internal/unigram"
)

// Model is a model. It is safe for concurrent use.
type Model struct {
	*File
	normalizer normalizer
	unknown    int32      // id of the piece of unknown text, or -1
	bytes      [256]int32 // ids of the pieces of bytes
	texts      []string   // of pieces, in the form inside the encoder; "" for those that no text has
	cuts       *pretokenize.SplitPoints
	crossing   []string // texts that a word may not be split within, or nil: no word is split

	measures   []measure // by piece
	unigram    *unigram.Model[float32]
	maxScore   float64 // the largest absolute value of a score
	pairs      *merges
	ids        map[string]int32 // of words, or of characters
	characters *trie.Trie       // user-defined symbols, in the form inside the encoder
}

// measure has the score of a piece of a Unigram model, 0 for other models, and the bytes of its text.
type measure struct {
	score  float32
	length int32
}

// resetAt is the sum of scores at which SentencePiece subtracts it from the sums of all paths.
const resetAt = 100_000

// New returns the model of a file.
func New(f *File) (*Model, error) {
	m := &Model{File: f, unknown: -1, texts: make([]string, len(f.Pieces))}
	var raw, internal []trie.Key
	escapes := normalizer{escapesSpaces: f.EscapeWhitespaces}
	for id, p := range f.Pieces {
		text, ok := escapes.internal(p.Text)
		switch {
		case p.Type == Unknown:
			m.unknown = int32(id)
		case p.Type == Byte:
			b, err := strconv.ParseUint(p.Text[3:5], 16, 8)
			if err != nil {
				return nil, fmt.Errorf("piece %d %q: %w", id, p.Text, err)
			}
			m.bytes[b] = int32(id)
		case p.isReserved() || p.Text == "\x00":
		case ok:
			m.texts[id] = text
		}
		if p.Type == UserDefined {
			raw = append(raw, trie.Key{Text: p.Text, Value: int32(id)})
			if ok {
				internal = append(internal, trie.Key{Text: text, Value: int32(id)})
			}
		}
	}
	rawTrie, err := trie.New(raw)
	if err == nil {
		m.characters, err = trie.New(internal)
	}
	if err == nil {
		m.normalizer, err = newNormalizer(f, rawTrie)
	}
	if err != nil {
		return nil, err
	}
	m.measures = make([]measure, len(f.Pieces))
	for id, text := range m.texts {
		m.measures[id].length = int32(len(text))
	}
	return m, m.prepare()
}

// prepare prepares how words are found and encoded.
func (m *Model) prepare() (err error) {
	never := func(int, int) bool { return false }
	always := func(int, int) bool { return true }
	switch m.Kind {
	case Unigram:
		err = m.prepareUnigram()
		m.cuts, m.crossing = pretokenize.NewSplitPoints(false, m.texts, always), m.texts
	case BPE:
		m.cuts, m.crossing = pretokenize.NewSplitPoints(false, m.texts, always), m.texts
		m.pairs, err = newMerges(m)
	default:
		m.ids = make(map[string]int32, len(m.texts))
		for id, text := range m.texts {
			if text != "" && m.Pieces[id].Type != Unused {
				m.ids[text] = int32(id)
			}
		}
		m.cuts = pretokenize.NewSplitPoints(true, nil, never)
		if m.Kind == Char {
			nextToSpace := func(before, after int) bool { return before == ' ' || after == ' ' }
			var symbols []string
			for id, p := range m.Pieces {
				if p.Type == UserDefined {
					symbols = append(symbols, m.texts[id])
				}
			}
			m.cuts = pretokenize.NewSplitPoints(false, symbols, nextToSpace)
		}
	}
	return err
}

func (m *Model) prepareUnigram() (err error) {
	o := unigram.Options[float32]{Unknown: -1, MinScore: math.MaxFloat32, ResetAt: resetAt}
	pieces := make([]unigram.Piece[float32], len(m.Pieces))
	for id, p := range m.Pieces {
		if p.Type == Normal {
			o.MinScore = min(o.MinScore, p.Score)
		}
		if p.Type == UserDefined { // better than other pieces
			p.Score = float32(0.1 * float64(len(p.Text)-1))
		}
		if p.Type != Unused {
			pieces[id] = unigram.Piece[float32]{Text: m.texts[id], Score: p.Score}
		}
		m.maxScore = max(m.maxScore, math.Abs(float64(p.Score)))
	}
	if m.unigram, err = unigram.New(pieces, o); err != nil {
		return err
	}
	m.maxScore = max(m.maxScore, math.Abs(float64(m.unigram.UnknownScore())))
	for id := range m.measures {
		m.measures[id].score = m.unigram.ScoreOf(int32(id))
	}
	return nil
}

// Cuts returns where a text may be split into separately encoded words.
func (m *Model) Cuts() *pretokenize.SplitPoints { return m.cuts }

// Crossing returns the texts within which no word may be split further; nil if no word may be.
func (m *Model) Crossing() []string { return m.crossing }

// unknownID is the id of unknown text in the result of segmenters: a character, or a word of a word model.
func (m *Model) unknownID() int32 { return int32(len(m.Pieces)) }

// undecided is followed by the number of bytes of a word whose pieces depend on the text before it.
func (m *Model) undecided() int32 { return m.unknownID() + 1 }

// Segmenter encodes single words. It is used by one goroutine. Its ids are the input of Encoder.Append.
type Segmenter struct {
	model   *Model
	unigram *unigram.Segmenter[float32]
	merging merging
}

// NewSegmenter returns a segmenter for one goroutine.
func (m *Model) NewSegmenter() *Segmenter {
	s := &Segmenter{model: m}
	if m.unigram != nil {
		s.unigram = m.unigram.NewSegmenter()
	}
	return s
}

// Append appends the ids of a word.
func (s *Segmenter) Append(dst []int32, word []byte) []int32 {
	m := s.model
	switch m.Kind {
	case Unigram:
		return s.appendUnigram(dst, word)
	case BPE:
		return s.merging.append(m.pairs, dst, word)
	case Word:
		return append(dst, m.idOf(word))
	}
	for len(word) > 0 {
		size, _ := m.characters.Longest(trie.Root, word)
		if size == 0 {
			_, size = utf8.DecodeRune(word)
		}
		dst, word = append(dst, m.idOf(word[:size])), word[size:]
	}
	return dst
}

func (m *Model) idOf(text []byte) int32 {
	if id, ok := m.ids[string(text)]; ok {
		return id
	}
	return m.unknownID()
}

const (
	// maxWordSum bounds the scores of a word that is encoded without the text before it.
	maxWordSum = 1 << 12
	// rounding bounds the difference of two sums of less than 1<<17 due to the rounding of one number in each.
	rounding = 1.0 / (1 << 7)
)

// appendUnigram appends the ids of a word if rounding cannot change them, independent of the text before the word.
func (s *Segmenter) appendUnigram(dst []int32, word []byte) []int32 {
	m := s.model
	n := float64(len(word))
	if n*m.maxScore <= maxWordSum {
		if ids, ok := s.unigram.AppendDecided(dst, word, n*rounding+1e-6); ok {
			return ids
		}
	}
	return append(dst, m.undecided(), int32(len(word)))
}

// appendPath appends the ids of text after a text with a sum of scores.
func appendPath(u *unigram.Segmenter[float32], dst []int32, text []byte, before float32) (ids []int32, sum float32) {
	n := len(dst)
	sum = u.Walk(text, before, func(_, _ int, id int32) { dst = append(dst, id) })
	slices.Reverse(dst[n:])
	return dst, sum
}
