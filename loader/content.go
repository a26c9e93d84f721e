package loader

// Content is what a document brings to the rows that hold it: one value a token. A further field (losses, weights) would be cut, cached and
// copied as the tokens are.
type Content struct {
	Tokens []int32 // end-of-document token included
	// Stored is when the document's stream took it, in nanoseconds since 1970; 0 where that is not known. It is of no consequence for the plan.
	Stored int64
	// Trace is that of a sampled document; nil for nearly all.
	Trace *Trace
}

// Len returns the length in tokens.
func (c Content) Len() int { return len(c.Tokens) }

// tokenBytes is the memory that the content of one token takes.
const tokenBytes = 4

// bytes is the memory that the content takes.
func (c Content) bytes() int64 { return tokenBytes * int64(len(c.Tokens)) }

// copy copies tokens [start, start+n) of from to position at of c, and returns the position behind them.
func (c Content) copy(at int, from Content, start, n int32) int {
	return at + copy(c.Tokens[at:], from.Tokens[start:start+n])
}
