// Package definition reads what a tokenizer is, from a built-in name, a tokenizer.json or a rank file: how text is
// normalized, cut and merged, its vocabulary and added tokens. What has not been compared with the reference
// implementations is refused, by name.
package definition

import (
	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
)

// Definition is what shapes a tokenizer's ids, whatever kind of file it came from.
type Definition struct {
	Family      *pretokenize.Family // how text is cut into words
	Normalize   []norm.Step         // what is done to the text between added tokens, in order
	Characters  *CharacterModel     // merging begins with characters; nil: with bytes
	PrefixSpace bool                // put a space before text that has none
	WholeWords  bool                // a word that is a token is that token, whatever its merges give
	Merges      *merge.Merges       // the byte pair encoding itself
	Vocabulary                      // what has an id before added tokens are given theirs
	Added       []added.Token       // in the order in which the reference adds them
	SpecialList string              // of a rank file: where its special tokens are from; "" for others

	End         NamedEnd // the end of a text, as the configuration files in the folder name it
	Template    Template // what the post-processor adds
	Identity    *fingerprint.Identity
	Fingerprint string  // that of Identity and the added tokens, without options; "": not known
	Decoder     Decoder // the way back
}
