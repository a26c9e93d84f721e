package tokenizer

// Model is one tokenizer. It is immutable and safe for concurrent use; encoding is done by an Encoder.
type Model struct {
	name        string
	fingerprint string
	def         *definition
	merges      *merges
	split       splitter
	whole       map[string]int32 // words that are one token although merging gives something else
	raw         addedSet         // added tokens looked for in the text as it is
	normalized  addedSet         // added tokens looked for in normalized text
	cross       crossSet
	seeds       []seed
	decoded     []string // id -> bytes; "" is no token
}

// seed is a word that is one token. Those that are short fill a new cache.
type seed struct {
	word string
	id   int32
}

func compile(d *definition) (*Model, error) {
	m := &Model{def: d, merges: d.merges, split: d.family.splitter}
	m.raw = newAddedSet(d, false)
	m.normalized = newAddedSet(d, true)
	m.fillDecoded()
	m.fillWords()
	m.fingerprint = m.sum()
	return m, nil
}

func (m *Model) known(id int32) bool { return m.decoded[id] != "" }

func (m *Model) fillDecoded() {
	set := func(id int32, s string) {
		if grow := int(id) + 1 - len(m.decoded); grow > 0 {
			m.decoded = append(m.decoded, make([]string, grow)...)
		}
		m.decoded[id] = s
	}
	for s, id := range m.def.tokens {
		set(id, s)
	}
	for s, id := range m.def.names {
		set(id, s)
	}
	for _, a := range m.def.added {
		set(a.id, a.content)
	}
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
		if len(text) <= keyMax && (self || m.def.wholeWords) {
			m.seeds = append(m.seeds, seed{text, int32(id)})
		}
	}
	for _, text := range m.merges.text {
		m.cross.add(text)
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
