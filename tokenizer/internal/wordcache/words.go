package wordcache

import (
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// Words has what all encoders of a model share about its words.
type Words struct {
	merges *merge.Merges
	whole  map[string]int32 // words that are one token although merging gives other ids
	cross  pretokenize.CrossSet
	seeds  seeds
	shared func() *sharedWords
}

// Rules are the rules for words in addition to merges.
type Rules struct {
	Whole bool // a word that is a token becomes that token, whatever its merges give
	Cut   bool // text is split into words; if not, a word is a whole text
}

// New determines which tokens are the result of merging their bytes. Those seed the caches. The others matter only if
// whole words precede merges. tokens are the byte strings of the vocabulary by id. If text is not split into words,
// the others are returned as texts, for the caller to look up.
func New(m *merge.Merges, tokens []string, r Rules) (w *Words, texts map[string]int32) {
	w = &Words{merges: m, shared: newSharedWords()}
	for id, self := range m.Themselves(tokens) {
		text := tokens[id]
		if text == "" {
			continue
		}
		if r.Whole && !self {
			if w.whole == nil {
				w.whole = map[string]int32{}
			}
			w.whole[text] = int32(id)
		}
		if len(text) <= keyMax && (self || r.Whole && r.Cut) {
			w.seeds.add(text, int32(id))
		}
	}
	w.seeds.end()
	for _, text := range m.Texts() {
		w.cross.Add(text)
	}
	if !r.Cut {
		texts, w.whole = w.whole, nil
	}
	return w, texts
}

// HaveWhole reports whether some words are one token whatever merging gives.
func (w *Words) HaveWhole() bool { return len(w.whole) > 0 }

// KeepTogether makes encoders split no long word into pieces.
func (w *Words) KeepTogether() { w.cross.Fill() }

// Afresh returns w for encoders that share no words with those of w.
func (w *Words) Afresh() *Words {
	fresh := *w
	fresh.shared = newSharedWords()
	return &fresh
}
