package definition

import (
	"fmt"
	"math"
	"strings"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/unigram"
)

// readUnigram reads a Unigram model and the pre-tokenizers before it: none, or Metaspace, after a WhitespaceSplit or
// not.
func (d *Definition) readUnigram(c *hf.Config) error {
	if err := d.readUnigramSplit(c.PreTokenizer); err != nil {
		return err
	}
	list, ok := c.Model["vocab"].([]format.Piece)
	if !ok {
		return fmt.Errorf("model vocab: want a list of [piece, score], have %s", format.Describe(c.Model["vocab"]))
	}
	unknown, ok := c.Model["unk_id"].(float64)
	if !ok || unknown < 0 || unknown >= float64(len(list)) || unknown != math.Trunc(unknown) {
		return fmt.Errorf("model unk_id: want the index of a piece below %d, have %s: unknown characters need it", len(list),
			format.Describe(c.Model["unk_id"]))
	}
	o := unigram.Options[float64]{Unknown: int32(unknown), MinScore: math.Inf(1)}
	entries := make([]format.Entry, len(list))
	pieces := make([]unigram.Piece[float64], len(list))
	for i, p := range list {
		entries[i] = format.Entry{Token: p.Token, ID: int32(i)}
		o.MinScore = min(o.MinScore, p.Score)
		text, ok := d.Characters.appendInternal(nil, p.Token)
		if !ok { // no text has the mark and spaces
			text = nil
		}
		pieces[i] = unigram.Piece[float64]{Text: string(text), Score: p.Score}
	}
	if err := d.setVocabulary(entries); err != nil {
		return err
	}
	switch v := c.Model["byte_fallback"].(type) {
	case nil:
	case bool:
		if v {
			o.Bytes = d.byteIDs()
		}
	default:
		return format.UnsupportedError("model byte_fallback", v)
	}
	if mark := d.Characters.Mark; mark != "" {
		o.Spell = func(s string) string { return strings.ReplaceAll(s, " ", mark) }
	}
	var err error
	d.Unigram, err = unigram.New(pieces, o)
	return err
}

// readUnigramSplit reads the pre-tokenizers.
func (d *Definition) readUnigramSplit(p map[string]any) error {
	list, ok := flatten(p)
	if !ok {
		return format.UnsupportedError("pre_tokenizer of a Unigram model", p)
	}
	if len(list) > 0 && list[0]["type"] == "WhitespaceSplit" {
		d.JoinsSpaces = true
		list = list[1:]
	}
	rest := make([]any, len(list))
	for i, x := range list {
		rest[i] = x
	}
	ok, err := d.readCharacterLevel(map[string]any{"type": "Sequence", "pretokenizers": rest})
	if err != nil {
		return err
	}
	if !ok {
		return format.UnsupportedError("pre_tokenizer of a Unigram model", p)
	}
	if c := d.Characters; d.JoinsSpaces && !(c.SplitsAtMarks && d.PrefixSpace && !c.PrefixesFirstOnly && c.Mark != " ") {
		return format.UnsupportedError("pre_tokenizer WhitespaceSplit without a Metaspace that always prepends and splits,",
			p)
	}
	return nil
}

// byteIDs returns the ids of the tokens of bytes, -1 for missing ones.
func (d *Definition) byteIDs() *[256]int32 {
	var ids [256]int32
	for b := range ids {
		id, ok := d.idOf(fmt.Sprintf("<0x%02X>", b))
		if ids[b] = id; !ok {
			ids[b] = -1
		}
	}
	return &ids
}
