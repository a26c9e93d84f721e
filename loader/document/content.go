package document

import (
	"cmp"
	"slices"

	"loaderd/loader/plan"
)

// Content is what a document brings to the rows that hold it: one value a token.
type Content struct {
	Tokens []int32       // end-of-document token included; nil where Narrow has them
	Narrow []uint16      // the tokens in half the memory, where all fit 16 bits; else nil
	Loss   plan.LossRuns // which of them have a loss
	// Weight is a factor of the loss of its tokens, where that is not 1; else nil.
	Weight *float32
	// Extra is what else came with the tokens, where the run takes it along; nil for nearly all.
	Extra *Extra
	// Docs are the documents of a message with several, whose tokens follow one another; then Weight is theirs.
	Docs []Doc
	// Stored is when the document's stream took it, in nanoseconds since 1970; 0 where that is not known. It is of no
	// consequence for the plan.
	Stored int64
	// Trace is that of a sampled document; nil for nearly all.
	Trace *Trace

	// Again says that the memory of Narrow may be used again behind the document: it is nobody else's.
	Again bool
}

// Doc is one of several documents of a message.
type Doc struct {
	Start  int32    // its first token among those of the message
	Weight *float32 // as Content.Weight
}

// DocAt returns which document of the message has a token, with its first token.
func (c Content) DocAt(token int32) (index int, start int32) {
	if c.Docs == nil {
		return 0, 0
	}
	i, found := slices.BinarySearchFunc(c.Docs, token, func(d Doc, token int32) int { return cmp.Compare(d.Start, token) })
	for found && i+1 < len(c.Docs) && c.Docs[i+1].Start == token { // those before have no tokens
		i++
	}
	if !found {
		i--
	}
	return i, c.Docs[i].Start
}

// WeightAt returns the factor of the loss of a token.
func (c Content) WeightAt(token int32) float32 {
	w := c.Weight
	if c.Docs != nil {
		i, _ := c.DocAt(token)
		w = c.Docs[i].Weight
	}
	if w == nil {
		return 1
	}
	return *w
}

// HasWeights reports whether a weight is given, 1 included.
func (c Content) HasWeights() bool {
	return c.Weight != nil || slices.ContainsFunc(c.Docs, func(d Doc) bool { return d.Weight != nil })
}

// Len returns the length in tokens.
func (c Content) Len() int { return len(c.Tokens) + len(c.Narrow) }

// TokenIDs returns tokens [from, to), which may be those of the content itself.
func (c Content) TokenIDs(from, to int) []int32 {
	if c.Narrow == nil {
		return c.Tokens[from:to]
	}
	ids := make([]int32, to-from)
	Widen(ids, c.Narrow[from:to])
	return ids
}

// Narrowed returns the content with its tokens in memory of their own, as 16 bits each where all fit.
func (c Content) Narrowed() Content {
	if c.Tokens == nil {
		return c
	}
	ids, from := NarrowIDs.Get(len(c.Tokens))
	if Fits16(Narrow(ids, c.Tokens)) {
		c.Tokens, c.Narrow, c.Again = nil, ids, from != nil
	} else {
		c.Tokens = slices.Clone(c.Tokens)
	}
	return c
}

const (
	narrowBytes = 2 // of a token's id that is narrow
	NumberBytes = 4 // of any other, of a run's length and of a weight
	docNumbers  = 5 // of a document of several, with its weight
)

// Bytes is the memory that the content takes.
func (c Content) Bytes() int64 {
	n := cap(c.Tokens) + cap(c.Loss) + docNumbers*cap(c.Docs)
	if c.Weight != nil {
		n++
	}
	return NumberBytes*int64(n) + narrowBytes*int64(cap(c.Narrow)) + c.Extra.bytes()
}
