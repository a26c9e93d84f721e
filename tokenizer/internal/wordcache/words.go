package wordcache

import (
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// Words has what all encoders of a model share about its words.
type Words struct {
	merges *merge.Merges
	// newSegmenter returns what encodes words instead of merges, or is nil.
	newSegmenter func() Segmenter
	whole        map[string]int32 // words that are one token although merging gives other ids
	cross        pretokenize.CrossSet
	unsplit      bool // no long word is split into pieces
	seeds        seeds
	shared       func() *sharedWords
}

// Rules are the rules for words in addition to merges.
type Rules struct {
	WholeWords  bool // a word that is a token becomes that token, whatever its merges give
	SplitsWords bool // text is split into words; if not, a word is a whole text
}

// New determines which tokens are the result of merging their bytes. Those seed the caches. The others matter only if
// whole words precede merges. tokens are the byte strings of the vocabulary by id. If text is not split into words,
// the others are returned as texts, for the caller to look up.
func New(m *merge.Merges, tokens []string, r Rules) (w *Words, texts map[string]int32) {
	w = &Words{merges: m, shared: newSharedWords()}
	for id, self := range m.SelfMerging(tokens) {
		text := tokens[id]
		if text == "" {
			continue
		}
		if r.WholeWords && !self {
			if w.whole == nil {
				w.whole = map[string]int32{}
			}
			w.whole[text] = int32(id)
		}
		if len(text) <= keyMax && (self || r.WholeWords && r.SplitsWords) {
			w.seeds.add(text, int32(id))
		}
	}
	w.seeds.pad()
	for _, text := range m.Texts() {
		w.cross.Add(text)
	}
	if !r.SplitsWords {
		texts, w.whole = w.whole, nil
	}
	return w, texts
}

// Segmenter encodes single words. It is used by one goroutine.
type Segmenter interface {
	// Append appends the ids of a word, which depend on the word only.
	Append(dst []int32, word []byte) []int32
}

// NewSegmented returns words that are encoded by segmenters, one per encoder. Long words are split into pieces, but not
// within a text of crossing; nil: they are not split.
func NewSegmented(newSegmenter func() Segmenter, crossing []string) *Words {
	w := &Words{newSegmenter: newSegmenter, shared: newSharedWords(), unsplit: crossing == nil}
	w.seeds.pad()
	for _, text := range crossing {
		w.cross.Add(text)
	}
	return w
}

// HasWholeWords reports whether some words are one token whatever merging gives.
func (w *Words) HasWholeWords() bool { return len(w.whole) > 0 }

// DisableSplitting makes encoders split no long word into pieces.
func (w *Words) DisableSplitting() { w.unsplit = true }

// CloneUnshared returns w for encoders that share no words with those of w.
func (w *Words) CloneUnshared() *Words {
	fresh := *w
	fresh.shared = newSharedWords()
	return &fresh
}
