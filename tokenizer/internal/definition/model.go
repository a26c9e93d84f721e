package definition

import (
	"fmt"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// readModel reads the byte pair encoding itself.
func (d *Definition) readModel(m map[string]any) error {
	if m == nil {
		return format.Refuse("model", nil)
	}
	for _, option := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if v := m[option]; v != nil && v != "" {
			return format.Refuse("model "+option, v)
		}
	}
	if v := m["dropout"]; v != nil && v != 0.0 {
		return format.Refuse("model dropout", v)
	}
	c := d.Characters
	if c == nil { // every byte has a token: nothing is unknown, so the options that say what to do about it do not matter
		c = &CharacterModel{}
	}
	for _, option := range []struct {
		name string
		to   *bool
	}{{"ignore_merges", &d.WholeWords}, {"fuse_unk", &c.fuse}, {"byte_fallback", &c.bytes}} {
		switch v := m[option.name].(type) {
		case nil:
		case bool:
			*option.to = v
		default:
			return format.Refuse("model "+option.name, v)
		}
	}
	switch v := m["unk_token"].(type) {
	case nil:
	case string:
		c.unk, c.hasUnk = v, true
	default:
		return format.Refuse("model unk_token", v)
	}
	vocab, ok := m["vocab"].([]format.Entry)
	if !ok {
		return fmt.Errorf("model vocab: want an object of token: id, have %s", format.Describe(m["vocab"]))
	}
	merges, ok := m["merges"].([]merge.Rule)
	if !ok {
		return fmt.Errorf("model merges: want a list, have %s", format.Describe(m["merges"]))
	}
	d.Entries = vocab
	if err := d.readVocab(vocab); err != nil {
		return err
	}
	if d.Characters != nil {
		return d.readCharacterMerges(vocab, merges)
	}
	return d.readMerges(merges)
}

// readVocab sorts the vocabulary into texts that merges may make and others.
func (d *Definition) readVocab(vocab []format.Entry) error {
	d.Tokens, d.Names = make(map[string]int32, len(vocab)), map[string]int32{}
	owner := make(map[int32]string, len(vocab))
	for _, v := range vocab {
		token, id := v.Token, v.ID
		if other, ok := owner[id]; ok {
			return fmt.Errorf("model vocab: tokens %q and %q both have id %d", min(token, other), max(token, other), id)
		}
		owner[id] = token
		if token == "" {
			return fmt.Errorf("model vocab: id %d is the empty token", id)
		}
		if text, ok := d.textOf(token); ok {
			d.Tokens[text] = id
		} else {
			d.Names[token] = id
		}
	}
	return nil
}

// textOf is the text that a vocabulary entry stands for inside the encoder, if merges may make it.
func (d *Definition) textOf(entry string) (text string, ok bool) {
	if d.Characters != nil {
		return d.Characters.inside(entry)
	}
	return pretokenize.BytesOf(entry)
}

// readMerges reads merges that begin with bytes.
func (d *Definition) readMerges(list []merge.Rule) error {
	m := merge.New(len(list))
	d.Merges = m
	symbols := make(map[string]uint32, len(list)+256)
	for b := range 256 {
		text := string([]byte{byte(b)})
		if id, ok := d.Tokens[text]; ok {
			m.SetByte(byte(b), id)
			symbols[text] = uint32(b)
		}
	}
	lookup := func(text string) (symbol uint32, fresh, ok bool) {
		if symbol, ok := symbols[text]; ok {
			return symbol, false, true
		}
		id, ok := d.Tokens[text]
		if !ok {
			return 0, false, false
		}
		symbols[text] = m.Symbol(text, id)
		return symbols[text], true, true
	}
	for i, x := range list {
		left, okL := pretokenize.BytesOf(x.Left)
		right, okR := pretokenize.BytesOf(x.Right)
		if !okL || !okR {
			return fmt.Errorf("model merges: merge %d %s: want byte-level tokens", i, x)
		}
		l, freshL, okL := lookup(left)
		r, freshR, okR := lookup(right)
		made, fresh, okM := lookup(left + right)
		if !okL || !okR || !okM {
			return fmt.Errorf("model merges: merge %d %s: its parts and its result must be in the vocabulary", i, x)
		}
		if err := m.Join(l, r, made, fresh && !freshL && !freshR); err != nil {
			return fmt.Errorf("model merges: %w", err)
		}
	}
	return d.checkBytes()
}

// checkBytes makes sure that every byte that occurs in UTF-8 has a token.
func (d *Definition) checkBytes() error {
	for b := range 256 {
		if _, ok := d.Tokens[string([]byte{byte(b)})]; !ok && b != 0xC0 && b != 0xC1 && b < 0xF5 {
			return fmt.Errorf("no token for byte %#02x: the reference would drop it; %s", b, format.Advice)
		}
	}
	return nil
}
