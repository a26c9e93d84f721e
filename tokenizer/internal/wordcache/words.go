package wordcache

import (
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// Words is what all encoders of a model know about its words.
type Words struct {
	merges *merge.Merges
	whole  map[string]int32 // words that are one token although merging gives something else
	cross  pretokenize.CrossSet
	seeds  seeds
	shared func() *sharedWords
}

// Rules say what counts beside merges.
type Rules struct {
	Whole bool // a word that is a token is that token, whatever its merges give
	Cut   bool // text is cut into words; if not, a word is a whole text
}

// New finds out which tokens are what merging makes of their bytes. Those seed the caches; the others matter only where
// whole words go before merges. tokens are the byte strings of the vocabulary by id. Where text is not cut into words,
// those others are returned, for whoever has the text.
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

// HaveWhole tells whether some words are one token whatever merging gives.
func (w *Words) HaveWhole() bool { return len(w.whole) > 0 }

// KeepTogether makes encoders cut no long word into pieces.
func (w *Words) KeepTogether() { w.cross.Fill() }

// Afresh is w for encoders that are to know nothing of what those of w have seen.
func (w *Words) Afresh() *Words {
	fresh := *w
	fresh.shared = newSharedWords()
	return &fresh
}
