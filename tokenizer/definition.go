package tokenizer

// definition is what shapes a tokenizer's ids, whatever kind of file it came from.
type definition struct {
	family      *family          // how text is cut into words
	normalize   []step           // what is done to the text between added tokens, in order
	characters  *characterModel  // merging begins with characters; nil: with bytes
	prefixSpace bool             // put a space before text that has none
	wholeWords  bool             // a word that is a token is that token, whatever its merges give
	merges      *merges          // the byte pair encoding itself
	tokens      map[string]int32 // byte strings of the vocabulary
	names       map[string]int32 // vocabulary entries that are no byte strings: only added tokens reach them
	added       []addedToken     // in the order in which the reference adds them

	template template // what the post-processor adds
	identity *identity
	decoder  decoder // the way back

	specialAsText bool
	addSpecial    bool // add what template says
}

// addedToken is found in the text before anything else is done to it.
type addedToken struct {
	content    string
	id         int32
	special    bool
	normalized bool // look for it after normalization, and in what the others have left
	singleWord bool // not beside a word character
	lstrip     bool // take the white space before it too
	rstrip     bool // and after it
}

// maxID bounds ids and symbols: both must fit symbolBits, and a hostile file must not reserve memory without end.
const maxID = 1<<symbolBits - 2
