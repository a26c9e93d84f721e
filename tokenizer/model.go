package tokenizer

import (
	"cmp"
	"slices"
)

// Model is one tokenizer. It is safe for concurrent use, and nothing changes what it gives; encoding is done by an Encoder.
type Model struct {
	name        string
	fingerprint string
	def         *definition
	merges      *merges
	shared      func() *sharedWords
	split       splitter
	cuts        *cuts            // instead of split, where merging begins with characters
	whole       map[string]int32 // words that are one token although merging gives something else
	mark        []byte           // what spaces become, where that is done late
	texts       map[string]int32 // the same for texts between added tokens, where they are not cut into words
	raw         addedSet         // added tokens looked for in the text as it is
	normalized  addedSet         // added tokens looked for in normalized text
	cross       crossSet
	seeds       []seed
	decoding
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

func compile(d *definition) (*Model, error) {
	m := &Model{def: d, merges: d.merges}
	m.shared = newSharedWords()
	if d.family != nil {
		m.split = d.family.splitter
	}
	var err error
	if m.raw, m.normalized, err = d.addedSets(); err != nil {
		return nil, err
	}
	m.decoding = newDecoding(d)
	if err := m.checkTemplate(); err != nil {
		return nil, err
	}
	m.fillWords()
	m.fillGreedy()
	m.fingerprint = d.fingerprint()
	return m, nil
}

// fillWords finds out which tokens are what merging makes of their bytes. Those seed the caches; the others matter
// only where whole words go before merges.
func (m *Model) fillWords() {
	var s longScratch
	var ids []int32
	for id, text := range m.byID() {
		if text == "" {
			continue
		}
		ids = m.merges.encode(&s, ids[:0], []byte(text))
		self := len(ids) == 1 && ids[0] == int32(id)
		if m.def.wholeWords && !self {
			if m.whole == nil {
				m.whole = map[string]int32{}
			}
			m.whole[text] = int32(id)
		}
		if len(text) <= keyMax && (self || m.def.wholeWords && m.def.cutsWords()) {
			m.seeds = append(m.seeds, seed{packWord([]byte(text), 0, len(text)), int32(id)})
		}
	}
	slices.SortFunc(m.seeds, func(a, b seed) int { // small ids are mostly the frequent words: they go in last
		return cmp.Or(cmp.Compare(a.place(), b.place()), cmp.Compare(b.id, a.id))
	})
	for _, text := range m.merges.text {
		m.cross.add(text)
	}
	if m.def.characters != nil {
		m.fillCuts()
	}
}

// byID lists the byte strings of the vocabulary by id, so that what is built from them does not depend on map order.
func (m *Model) byID() []string {
	list := make([]string, len(m.decoded))
	for s, id := range m.def.tokens {
		list[id] = s
	}
	return list
}

// fillGreedy finds out whether words can be encoded without merging.
func (m *Model) fillGreedy() {
	text := func(symbol uint32) string { return m.merges.text[symbol] }
	if m.def.characters != nil {
		list := m.byID()
		text = func(symbol uint32) string { return list[symbol] }
	}
	m.merges.greedy = newGreedy(m.merges, text)
}
