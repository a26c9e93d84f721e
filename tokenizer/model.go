package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/wordcache"
)

// Model is one tokenizer. It is safe for concurrent use and its results never change. Encoding is done by an Encoder.
type Model struct {
	name        string
	fingerprint func() string
	def         *definition.Definition
	words       *wordcache.Words
	split       pretokenize.Splitter
	cuts        *pretokenize.SplitPoints // replaces split if merging starts with characters
	mark        []byte                   // replaces spaces if that is done late
	// Texts between added tokens that are one token although merging gives other ids. It is used if texts are not split
	// into words.
	wholeTexts map[string]int32
	raw        added.Set // added tokens that are found in the raw text
	normalized added.Set // added tokens that are found in normalized text
	tokenDecoder

	specialAsText bool
	addSpecial    bool // add the ids of the template
}

func newModel(d *definition.Definition, o Options) (*Model, error) {
	m, err := assemble(d, o)
	if err != nil {
		return nil, err
	}
	if d.Merges != nil {
		d.Merges.PrepareGreedy(d.TokensByID())
	}
	return m, nil
}

// assemble returns a model that merges all words.
func assemble(d *definition.Definition, o Options) (*Model, error) {
	m := &Model{def: d, specialAsText: o.SpecialAsText, addSpecial: o.AddSpecialTokens}
	if d.Family != nil {
		m.split = d.Family.Splitter
	}
	var err error
	if m.raw, m.normalized, err = d.AddedSets(); err != nil {
		return nil, err
	}
	m.tokenDecoder = newTokenDecoder(d)
	if err := m.checkTemplate(); err != nil {
		return nil, err
	}
	m.prepareWords()
	shape := fingerprint.Settings{Added: d.Added, SpecialAsText: m.specialAsText}
	if m.addSpecial {
		shape.Before, shape.Behind = d.Template.Before, d.Template.After
	}
	if d.Fingerprint != "" && !m.specialAsText {
		m.fingerprint = func() string { return d.Fingerprint }
		return m, nil
	}
	m.fingerprint = sync.OnceValue(func() string { return d.FingerprintOf(shape) })
	return m, nil
}

// prepareWords prepares how words are found and encoded.
func (m *Model) prepareWords() {
	d := m.def
	switch {
	case d.SentencePiece != nil:
		m.words = wordcache.NewSegmented(func() wordcache.Segmenter { return d.SentencePiece.NewSegmenter() },
			d.SentencePiece.Crossing())
		m.cuts = d.SentencePiece.Cuts()
		return
	case d.WordPiece != nil:
		m.words = wordcache.NewSegmented(func() wordcache.Segmenter { return d.WordPiece }, nil)
		return
	case d.Unigram != nil:
		m.words = wordcache.NewSegmented(func() wordcache.Segmenter { return d.Unigram.NewSegmenter() }, nil)
		m.mark = []byte(d.Characters.Mark)
		m.cuts = pretokenize.NewSplitPoints(d.Characters.SplitsAtMarks, nil, nil)
		return
	}
	m.words, m.wholeTexts = wordcache.New(d.Merges, d.TokensByID(),
		wordcache.Rules{WholeWords: d.WholeWords, SplitsWords: d.IsSplitIntoWords()})
	if d.Characters != nil {
		m.findCuts()
	}
}

// findCuts finds the places where texts may be split.
func (m *Model) findCuts() {
	c, merges := m.def.Characters, m.def.Merges
	m.mark = []byte(c.Mark)
	var may func(before, after int) bool
	free := !merges.HasFallbackMerges() && !m.words.HasWholeWords() // a word that is a token is not split
	if free {
		may = merges.Characters().CanSplit()
	}
	m.cuts = pretokenize.NewSplitPoints(c.SplitsAtMarks, merges.Texts(), may)
	if !free || !merges.Characters().IsComplete() {
		m.words.DisableSplitting()
	}
}

// checkTemplate returns an error if the ids to add are unknown.
func (m *Model) checkTemplate() error {
	t := m.def.Template
	if m.addSpecial && m.def.SentencePiece != nil {
		return errors.New("a SentencePiece model does not specify special tokens to add: use add_special_tokens with a " +
			"tokenizer.json only")
	}
	if !m.addSpecial && !t.AppliesAlways {
		return nil
	}
	for _, id := range slices.Concat(t.Before, t.After) {
		if !m.hasID(id) {
			return fmt.Errorf("post_processor adds id %d, which no token has", id)
		}
	}
	return t.UnsupportedErr
}
