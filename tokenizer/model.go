package tokenizer

import (
	"fmt"
	"slices"

	"loaderd/tokenizer/internal/pretokenize"
)

// Model is one tokenizer. It is safe for concurrent use, and nothing changes what it gives; encoding is done by an Encoder.
type Model struct {
	name        string
	fingerprint string
	def         *definition
	words       *words
	split       pretokenize.Splitter
	cuts        *pretokenize.Cuts // instead of split, where merging begins with characters
	mark        []byte            // what spaces become, where that is done late
	texts       map[string]int32  // texts between added tokens that are one token although merging gives something else, where they are not cut into words
	raw         addedSet          // added tokens looked for in the text as it is
	normalized  addedSet          // added tokens looked for in normalized text
	decoding

	specialAsText bool
	addSpecial    bool // add what the template says
}

func compile(d *definition, o Options) (*Model, error) {
	m, err := assemble(d, o)
	if err != nil {
		return nil, err
	}
	d.merges.prepareGreedy(m.byID())
	return m, nil
}

// assemble makes a model that merges all words.
func assemble(d *definition, o Options) (*Model, error) {
	m := &Model{def: d, specialAsText: o.SpecialAsText, addSpecial: o.AddSpecialTokens}
	if d.family != nil {
		m.split = d.family.Splitter
	}
	var err error
	if m.raw, m.normalized, err = d.addedSets(); err != nil {
		return nil, err
	}
	m.decoding = newDecoding(d)
	if err := m.checkTemplate(); err != nil {
		return nil, err
	}
	m.words, m.texts = newWords(d.merges, m.byID(), wordRules{whole: d.wholeWords, cut: d.cutsWords()})
	if d.characters != nil {
		m.fillCuts()
	}
	shape := shapes{added: d.added, specialAsText: m.specialAsText}
	if m.addSpecial {
		shape.before, shape.behind = d.template.before, d.template.behind
	}
	m.fingerprint = d.identity.fingerprint(shape)
	return m, nil
}

// byID lists the byte strings of the vocabulary by id, so that what is built from them does not depend on map order.
func (m *Model) byID() []string {
	list := make([]string, len(m.decoded))
	for s, id := range m.def.tokens {
		list[id] = s
	}
	return list
}

// fillCuts finds the places where texts may be cut.
func (m *Model) fillCuts() {
	c, merges := m.def.characters, m.def.merges
	m.mark = []byte(c.mark)
	var may func(before, after int) bool
	free := !merges.fallsBack() && !m.words.haveWhole() // a word that is a token is not cut
	if free {
		may = merges.beginsWith().parts()
	}
	m.cuts = pretokenize.NewCuts(c.words, merges.texts(), may)
	if !free || !merges.beginsWith().whole() {
		m.words.keepTogether()
	}
}

// checkTemplate makes sure that what is to be added is known.
func (m *Model) checkTemplate() error {
	t := m.def.template
	if !m.addSpecial && !t.always {
		return nil
	}
	for _, id := range slices.Concat(t.before, t.behind) {
		if !m.known(id) {
			return fmt.Errorf("post_processor adds id %d, which no token has", id)
		}
	}
	return t.refused
}
