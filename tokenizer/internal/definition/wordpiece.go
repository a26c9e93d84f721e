package definition

import (
	"fmt"
	"math"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/trie"
	"loaderd/tokenizer/internal/wordpiece"
)

// readWordPiece reads a WordPiece model, and the pre-tokenizer that splits text for it.
func (d *Definition) readWordPiece(c *hf.Config) error {
	list, ok := flatten(c.PreTokenizer)
	if !ok || len(list) != 1 {
		return format.UnsupportedError("pre_tokenizer of a WordPiece model", c.PreTokenizer)
	}
	switch list[0]["type"] {
	case "BertPreTokenizer":
		d.Words = pretokenize.BertWords()
	case "WhitespaceSplit":
		d.Words = pretokenize.SpacedWords()
	case "Whitespace":
		d.Words = pretokenize.PatternWords()
	default:
		return format.UnsupportedError("pre_tokenizer of a WordPiece model", c.PreTokenizer)
	}
	var o wordpiece.Options
	unknown, ok := c.Model["unk_token"].(string)
	if !ok {
		return fmt.Errorf("model unk_token: want a text, have %s", format.Describe(c.Model["unk_token"]))
	}
	if o.Prefix, ok = c.Model["continuing_subword_prefix"].(string); !ok {
		return fmt.Errorf("model continuing_subword_prefix: want a text, have %s",
			format.Describe(c.Model["continuing_subword_prefix"]))
	}
	length, ok := c.Model["max_input_chars_per_word"].(float64)
	if !ok || length < 0 || length > math.MaxInt32 || length != math.Trunc(length) {
		return fmt.Errorf("model max_input_chars_per_word: want a number of characters, have %s",
			format.Describe(c.Model["max_input_chars_per_word"]))
	}
	o.MaxRunes = int(length)
	vocab, ok := c.Model["vocab"].([]format.Entry)
	if !ok {
		return fmt.Errorf("model vocab: want an object of token: id, have %s", format.Describe(c.Model["vocab"]))
	}
	err := d.setVocabulary(vocab)
	if err != nil {
		return err
	}
	if o.Unknown, ok = d.idOf(unknown); !ok {
		return fmt.Errorf("model unk_token %q is not in the vocabulary, and words without tokens need it", unknown)
	}
	keys := make([]trie.Key, len(vocab))
	for i, e := range vocab {
		keys[i] = trie.Key{Text: e.Token, Value: e.ID}
	}
	d.WordPiece, err = wordpiece.New(keys, o)
	return err
}

// setVocabulary sets the vocabulary of a model without merges.
func (d *Definition) setVocabulary(entries []format.Entry) (err error) {
	d.Vocabulary, err = newVocabulary(entries, func(dst []byte, entry string) ([]byte, bool) {
		return append(dst, entry...), true
	})
	return err
}
