// Package definition reads the definition of a tokenizer from a built-in name, a tokenizer.json, a tokenizer.model or
// a rank file: how text is normalized, split and merged, its vocabulary and added tokens. It refuses, by name,
// components that have not been compared with the reference implementations.
package definition

import (
	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/sentencepiece"
	"loaderd/tokenizer/internal/unigram"
	"loaderd/tokenizer/internal/wordpiece"
)

// Definition contains everything that determines a tokenizer's ids, independent of the kind of file.
type Definition struct {
	Family      *pretokenize.Family     // how text is split into words
	Normalize   []norm.Step             // steps for the text between added tokens, in order
	Characters  *CharacterModel         // merging starts with characters; nil: with bytes
	PrefixSpace bool                    // put a space before text that starts with none
	WholeWords  bool                    // a word that is a token becomes that token, whatever its merges give
	Merges      *merge.Merges           // the byte pair encoding itself; nil: another model
	WordPiece   *wordpiece.Model        // nil: another model
	Unigram     *unigram.Model[float64] // nil: another model
	// SentencePiece is the model of a tokenizer.model, including its normalizer; nil: another model. Its control pieces
	// are among Added, but are not found in texts.
	SentencePiece *sentencepiece.Model
	Words         *pretokenize.ClassWords // how text is split for WordPiece
	// JoinsSpaces reports that text is split at white space, which is dropped, before spaces are put before all words.
	JoinsSpaces bool
	Vocabulary                // entries and their ids, without added tokens
	Added       []added.Token // in the order in which the reference adds them
	SpecialList string        // origin of the special tokens of a rank file; "" for other files

	End         EndConfig // the end of a text, named by the configuration files in the folder
	Template    Template  // ids that the post-processor adds
	Identity    *fingerprint.Identity
	Fingerprint string  // of Identity and the added tokens, without options; "": unknown
	Decoder     Decoder // decodes tokens to text
}
