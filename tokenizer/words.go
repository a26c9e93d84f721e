package tokenizer

import (
	"cmp"
	"slices"

	"loaderd/tokenizer/internal/pretokenize"
)

// words is what all encoders of a model know about its words.
type words struct {
	merges *merges
	whole  map[string]int32 // words that are one token although merging gives something else
	cross  pretokenize.CrossSet
	seeds  []seed
	shared func() *sharedWords
}

// wordRules say what counts beside merges.
type wordRules struct {
	whole bool // a word that is a token is that token, whatever its merges give
	cut   bool // text is cut into words; if not, a word is a whole text
}

// seed is a short word that is one token. They fill a new cache, in the order of their places in it.
type seed struct {
	word wordKey
	id   int32
}

// place tells how far into the caches the word lies.
func (s seed) place() uint64 {
	if s.word.short() {
		return briefPlace(s.word.shortKey())
	}
	return 1<<briefLog | uint64(s.word.place())
}

// newWords finds out which tokens are what merging makes of their bytes. Those seed the caches; the others matter only
// where whole words go before merges. tokens are the byte strings of the vocabulary by id. Where text is not cut into words,
// those others are returned, for whoever has the text.
func newWords(m *merges, tokens []string, r wordRules) (w *words, texts map[string]int32) {
	w = &words{merges: m, shared: newSharedWords()}
	var s longScratch
	var ids []int32
	for id, text := range tokens {
		if text == "" {
			continue
		}
		ids = m.encode(&s, ids[:0], []byte(text))
		self := len(ids) == 1 && ids[0] == int32(id)
		if r.whole && !self {
			if w.whole == nil {
				w.whole = map[string]int32{}
			}
			w.whole[text] = int32(id)
		}
		if len(text) <= keyMax && (self || r.whole && r.cut) {
			w.seeds = append(w.seeds, seed{packWord([]byte(text), 0, len(text)), int32(id)})
		}
	}
	slices.SortFunc(w.seeds, func(a, b seed) int { // small ids are mostly the frequent words: they go in last
		return cmp.Or(cmp.Compare(a.place(), b.place()), cmp.Compare(b.id, a.id))
	})
	for _, text := range m.texts() {
		w.cross.Add(text)
	}
	if !r.cut {
		texts, w.whole = w.whole, nil
	}
	return w, texts
}

// haveWhole tells whether some words are one token whatever merging gives.
func (w *words) haveWhole() bool { return len(w.whole) > 0 }

// keepTogether makes encoders cut no long word into pieces.
func (w *words) keepTogether() { w.cross.Fill() }

// afresh is w for encoders that are to know nothing of what those of w have seen.
func (w *words) afresh() *words {
	fresh := *w
	fresh.shared = newSharedWords()
	return &fresh
}
