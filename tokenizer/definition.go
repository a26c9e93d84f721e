package tokenizer

import (
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
)

// definition is what shapes a tokenizer's ids, whatever kind of file it came from.
type definition struct {
	family      *pretokenize.Family // how text is cut into words
	normalize   []norm.Step         // what is done to the text between added tokens, in order
	characters  *characterModel     // merging begins with characters; nil: with bytes
	prefixSpace bool                // put a space before text that has none
	wholeWords  bool                // a word that is a token is that token, whatever its merges give
	merges      *merges             // the byte pair encoding itself
	tokens      map[string]int32    // byte strings of the vocabulary
	entries     []vocabEntry        // the whole vocabulary as it is spelled
	names       map[string]int32    // vocabulary entries that are no byte strings: only added tokens reach them
	added       []addedToken        // in the order in which the reference adds them

	template template // what the post-processor adds
	identity *identity
	decoder  decoder // the way back
}
