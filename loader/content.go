package loader

// Content is what a document brings to the rows that hold it: one value a token. Whatever is added to it (losses, weights) is cut, cached
// and copied as the tokens are.
type Content struct {
	Tokens []int32 // end-of-document token included
}

// Len returns the length in tokens.
func (c Content) Len() int { return len(c.Tokens) }

// bytes is the memory that the content takes.
func (c Content) bytes() int64 { return int64(4 * len(c.Tokens)) }

// copy copies tokens [start, start+n) of from to position at of c, and returns the position behind them.
func (c Content) copy(at int, from Content, start, n int32) int {
	return at + copy(c.Tokens[at:], from.Tokens[start:start+n])
}
