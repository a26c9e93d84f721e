package definition

import (
	"fmt"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// readModel reads the byte pair encoding, and finds the entries of its merges; known has them if they are known.
func (d *Definition) readModel(m map[string]any, known []merge.Step) (steps []merge.Step, err error) {
	if m == nil {
		return nil, format.UnsupportedError("model", nil)
	}
	for _, option := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if v := m[option]; v != nil && v != "" {
			return nil, format.UnsupportedError("model "+option, v)
		}
	}
	if v := m["dropout"]; v != nil && v != 0.0 {
		return nil, format.UnsupportedError("model dropout", v)
	}
	c := d.Characters
	if c == nil { // every byte has a token, so the options for unknown characters have no effect
		c = &CharacterModel{}
	}
	for _, option := range []struct {
		name string
		to   *bool
	}{{"ignore_merges", &d.WholeWords}, {"fuse_unk", &c.fusesUnknown}, {"byte_fallback", &c.byteFallback}} {
		switch v := m[option.name].(type) {
		case nil:
		case bool:
			*option.to = v
		default:
			return nil, format.UnsupportedError("model "+option.name, v)
		}
	}
	switch v := m["unk_token"].(type) {
	case nil:
	case string:
		c.unknownToken, c.hasUnknown = v, true
	default:
		return nil, format.UnsupportedError("model unk_token", v)
	}
	vocab, ok := m["vocab"].([]format.Entry)
	if !ok {
		return nil, fmt.Errorf("model vocab: want an object of token: id, have %s", format.Describe(m["vocab"]))
	}
	merges, ok := m["merges"].([]merge.Rule)
	if !ok {
		return nil, fmt.Errorf("model merges: want a list, have %s", format.Describe(m["merges"]))
	}
	appendText := pretokenize.AppendBytes
	if d.Characters != nil {
		appendText = d.Characters.appendInternal
	}
	if d.Vocabulary, err = newVocabulary(vocab, appendText); err != nil {
		return nil, err
	}
	if steps = known; steps == nil {
		if steps, err = d.resolveMerges(merges); err != nil {
			return nil, err
		}
	}
	if d.Characters != nil {
		return steps, d.readCharacterMerges(steps)
	}
	return steps, d.readMerges(steps)
}

// resolveMerges returns merges with the places of their entries.
func (d *Definition) resolveMerges(list []merge.Rule) ([]merge.Step, error) {
	places := d.placeIndex()
	steps := make([]merge.Step, len(list))
	var both []byte
	for i, x := range list {
		left, okL := places[x.Left]
		right, okR := places[x.Right]
		both = append(append(both[:0], x.Left...), x.Right...)
		made, okM := places[string(both)]
		if !okL || !okR || !okM || d.Characters == nil && !(d.mergeable[left] && d.mergeable[right]) {
			return nil, fmt.Errorf("model merges: merge %d %s: %s", i, x, d.mergeError(x))
		}
		steps[i] = merge.Step{Left: left, Right: right, Made: made}
	}
	return steps, nil
}

// mergeError explains why the entries of a merge are not found.
func (d *Definition) mergeError(x merge.Rule) string {
	for _, part := range []string{x.Left, x.Right} {
		if _, ok := pretokenize.AppendBytes(nil, part); !ok && d.Characters == nil {
			return "want byte-level tokens"
		}
	}
	return "its parts and its result must be in the vocabulary"
}

// readMerges reads merges that start with bytes.
func (d *Definition) readMerges(steps []merge.Step) error {
	m := merge.New(len(steps))
	d.Merges = m
	symbols := make([]uint32, len(d.Entries)) // by place; 0: none yet
	var hasByte [256]bool
	for place, e := range d.Entries {
		if text := d.mergeText(uint32(place)); len(text) == 1 {
			m.SetByte(text[0], e.ID)
			symbols[place], hasByte[text[0]] = uint32(text[0])+1, true
		}
	}
	symbol := func(place uint32) (symbol uint32, fresh bool) {
		if symbols[place] == 0 {
			symbols[place], fresh = m.Symbol(d.mergeText(place), d.Entries[place].ID)+1, true
		}
		return symbols[place] - 1, fresh
	}
	for _, x := range steps {
		l, freshL := symbol(x.Left)
		r, freshR := symbol(x.Right)
		made, fresh := symbol(x.Made)
		if err := m.Join(l, r, made, fresh && !freshL && !freshR); err != nil {
			return fmt.Errorf("model merges: %w", err)
		}
	}
	return checkBytes(&hasByte)
}

// checkBytes returns an error unless every byte that occurs in UTF-8 has a token.
func checkBytes(has *[256]bool) error {
	for b, has := range has {
		if !has && b != 0xC0 && b != 0xC1 && b < 0xF5 {
			return fmt.Errorf("no token for byte %#02x: the reference would drop it; %s", b, format.PretokenizedHint)
		}
	}
	return nil
}
