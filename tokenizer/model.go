package tokenizer

import (
	"fmt"
	"slices"
	"sync"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/wordcache"
)

// Model is one tokenizer. It is safe for concurrent use, and nothing changes what it gives; encoding is done by an
// Encoder.
type Model struct {
	name        string
	fingerprint func() string
	def         *definition.Definition
	words       *wordcache.Words
	split       pretokenize.Splitter
	cuts        *pretokenize.Cuts // instead of split, where merging begins with characters
	mark        []byte            // what spaces become, where that is done late
	// texts between added tokens that are one token although merging gives something else, where they are not cut into
	// words
	texts      map[string]int32
	raw        added.Set // added tokens looked for in the text as it is
	normalized added.Set // added tokens looked for in normalized text
	decoding

	specialAsText bool
	addSpecial    bool // add what the template says
}

func compile(d *definition.Definition, o Options) (*Model, error) {
	m, err := assemble(d, o)
	if err != nil {
		return nil, err
	}
	d.Merges.PrepareGreedy(d.TokensByID())
	return m, nil
}

// assemble makes a model that merges all words.
func assemble(d *definition.Definition, o Options) (*Model, error) {
	m := &Model{def: d, specialAsText: o.SpecialAsText, addSpecial: o.AddSpecialTokens}
	if d.Family != nil {
		m.split = d.Family.Splitter
	}
	var err error
	if m.raw, m.normalized, err = d.AddedSets(); err != nil {
		return nil, err
	}
	m.decoding = newDecoding(d)
	if err := m.checkTemplate(); err != nil {
		return nil, err
	}
	m.words, m.texts = wordcache.New(d.Merges, d.TokensByID(), wordcache.Rules{Whole: d.WholeWords, Cut: d.CutsWords()})
	if d.Characters != nil {
		m.fillCuts()
	}
	shape := fingerprint.Shapes{Added: d.Added, SpecialAsText: m.specialAsText}
	if m.addSpecial {
		shape.Before, shape.Behind = d.Template.Before, d.Template.Behind
	}
	if d.Fingerprint != "" && !m.specialAsText {
		m.fingerprint = func() string { return d.Fingerprint }
		return m, nil
	}
	m.fingerprint = sync.OnceValue(func() string { return d.Identity.Fingerprint(shape) })
	return m, nil
}

// fillCuts finds the places where texts may be cut.
func (m *Model) fillCuts() {
	c, merges := m.def.Characters, m.def.Merges
	m.mark = []byte(c.Mark)
	var may func(before, after int) bool
	free := !merges.FallsBack() && !m.words.HaveWhole() // a word that is a token is not cut
	if free {
		may = merges.BeginsWith().Parts()
	}
	m.cuts = pretokenize.NewCuts(c.Words, merges.Texts(), may)
	if !free || !merges.BeginsWith().Whole() {
		m.words.KeepTogether()
	}
}

// checkTemplate makes sure that what is to be added is known.
func (m *Model) checkTemplate() error {
	t := m.def.Template
	if !m.addSpecial && !t.Always {
		return nil
	}
	for _, id := range slices.Concat(t.Before, t.Behind) {
		if !m.known(id) {
			return fmt.Errorf("post_processor adds id %d, which no token has", id)
		}
	}
	return t.Refused
}
