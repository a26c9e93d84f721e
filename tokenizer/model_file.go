package tokenizer

import (
	"fmt"

	"loaderd/tokenizer/internal/pretokenize"
)

// readModel reads the byte pair encoding itself.
func (d *definition) readModel(m map[string]any) error {
	if m == nil {
		return refuse("model", nil)
	}
	for _, option := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if v := m[option]; v != nil && v != "" {
			return refuse("model "+option, v)
		}
	}
	if v := m["dropout"]; v != nil && v != 0.0 {
		return refuse("model dropout", v)
	}
	c := d.characters
	if c == nil { // every byte has a token: nothing is unknown, so the options that say what to do about it do not matter
		c = &characterModel{}
	}
	for _, option := range []struct {
		name string
		to   *bool
	}{{"ignore_merges", &d.wholeWords}, {"fuse_unk", &c.fuse}, {"byte_fallback", &c.bytes}} {
		switch v := m[option.name].(type) {
		case nil:
		case bool:
			*option.to = v
		default:
			return refuse("model "+option.name, v)
		}
	}
	switch v := m["unk_token"].(type) {
	case nil:
	case string:
		c.unk, c.hasUnk = v, true
	default:
		return refuse("model unk_token", v)
	}
	vocab, ok := m["vocab"].([]vocabEntry)
	if !ok {
		return fmt.Errorf("model vocab: want an object of token: id, have %s", describe(m["vocab"]))
	}
	merges, ok := m["merges"].([]mergeRule)
	if !ok {
		return fmt.Errorf("model merges: want a list, have %s", describe(m["merges"]))
	}
	d.entries = vocab
	if err := d.readVocab(vocab); err != nil {
		return err
	}
	if d.characters != nil {
		return d.readCharacterMerges(vocab, merges)
	}
	return d.readMerges(merges)
}

// readVocab sorts the vocabulary into texts that merges may make and others.
func (d *definition) readVocab(vocab []vocabEntry) error {
	d.tokens, d.names = make(map[string]int32, len(vocab)), map[string]int32{}
	owner := make(map[int32]string, len(vocab))
	for _, v := range vocab {
		token, id := v.token, v.id
		if other, ok := owner[id]; ok {
			return fmt.Errorf("model vocab: tokens %q and %q both have id %d", min(token, other), max(token, other), id)
		}
		owner[id] = token
		if token == "" {
			return fmt.Errorf("model vocab: id %d is the empty token", id)
		}
		if text, ok := d.textOf(token); ok {
			d.tokens[text] = id
		} else {
			d.names[token] = id
		}
	}
	return nil
}

// textOf is the text that a vocabulary entry stands for inside the encoder, if merges may make it.
func (d *definition) textOf(entry string) (text string, ok bool) {
	if d.characters != nil {
		return d.characters.inside(entry)
	}
	return pretokenize.BytesOf(entry)
}

// readMerges reads merges that begin with bytes.
func (d *definition) readMerges(list []mergeRule) error {
	m := newMerges(len(list))
	d.merges = m
	symbols := make(map[string]uint32, len(list)+256)
	for b := range 256 {
		text := string([]byte{byte(b)})
		if id, ok := d.tokens[text]; ok {
			m.setByte(byte(b), id)
			symbols[text] = uint32(b)
		}
	}
	lookup := func(text string) (symbol uint32, fresh, ok bool) {
		if symbol, ok := symbols[text]; ok {
			return symbol, false, true
		}
		id, ok := d.tokens[text]
		if !ok {
			return 0, false, false
		}
		symbols[text] = m.symbol(text, id)
		return symbols[text], true, true
	}
	for i, x := range list {
		left, okL := pretokenize.BytesOf(x.left)
		right, okR := pretokenize.BytesOf(x.right)
		if !okL || !okR {
			return fmt.Errorf("model merges: merge %d %s: want byte-level tokens", i, x)
		}
		l, freshL, okL := lookup(left)
		r, freshR, okR := lookup(right)
		made, fresh, okM := lookup(left + right)
		if !okL || !okR || !okM {
			return fmt.Errorf("model merges: merge %d %s: its parts and its result must be in the vocabulary", i, x)
		}
		if err := m.join(l, r, made, fresh && !freshL && !freshR); err != nil {
			return fmt.Errorf("model merges: %w", err)
		}
	}
	return d.checkBytes()
}

// checkBytes makes sure that every byte that occurs in UTF-8 has a token.
func (d *definition) checkBytes() error {
	for b := range 256 {
		if _, ok := d.tokens[string([]byte{byte(b)})]; !ok && b != 0xC0 && b != 0xC1 && b < 0xF5 {
			return fmt.Errorf("no token for byte %#02x: the reference would drop it; %s", b, advice)
		}
	}
	return nil
}
