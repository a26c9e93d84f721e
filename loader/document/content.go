package document

import (
	"cmp"
	"slices"

	"loaderd/loader/plan"
)

// Content is the content of a document in the rows that contain it: one value per token.
type Content struct {
	Tokens       []int32       // end-of-document token included; nil if Narrow has them
	NarrowTokens []uint16      // the tokens in half the memory, if all fit 16 bits; otherwise nil
	Loss         plan.LossRuns // which tokens have a loss
	// Weight is the loss weight of the tokens, if not 1; otherwise nil.
	Weight *float32
	// Extra is further data of the document, if the run keeps it; usually nil.
	Extra *Extra
	// Docs are the documents of a message with several, whose tokens are concatenated. Weight is then per document.
	Docs []Doc
	// Stored is when the document stream stored the document, in nanoseconds since 1970; 0 if unknown. It does not
	// affect the plan.
	Stored int64
	// Trace is the trace of a sampled document; usually nil.
	Trace *Trace

	// Reusable reports that the memory of Narrow may be reused after the document, because it is not shared.
	Reusable bool
}

// Doc is one of several documents of a message.
type Doc struct {
	Start  int32    // index of its first token in the message
	Weight *float32 // as Content.Weight
}

// DocAt returns the index of the document that contains a token of the message, and its first token.
func (c Content) DocAt(token int32) (index int, start int32) {
	if c.Docs == nil {
		return 0, 0
	}
	i, found := slices.BinarySearchFunc(c.Docs, token, func(d Doc, token int32) int { return cmp.Compare(d.Start, token) })
	for found && i+1 < len(c.Docs) && c.Docs[i+1].Start == token { // documents without tokens come before it
		i++
	}
	if !found {
		i--
	}
	return i, c.Docs[i].Start
}

// WeightAt returns the loss weight of a token.
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

// HasWeights reports whether a weight is given, including 1.
func (c Content) HasWeights() bool {
	return c.Weight != nil || slices.ContainsFunc(c.Docs, func(d Doc) bool { return d.Weight != nil })
}

// Len returns the length in tokens.
func (c Content) Len() int { return len(c.Tokens) + len(c.NarrowTokens) }

// TokenIDs returns tokens [from, to). The result may share the content's memory.
func (c Content) TokenIDs(from, to int) []int32 {
	if c.NarrowTokens == nil {
		return c.Tokens[from:to]
	}
	ids := make([]int32, to-from)
	Widen(ids, c.NarrowTokens[from:to])
	return ids
}

// CloneNarrow returns the content with a copy of its tokens, as 16 bits each if all fit.
func (c Content) CloneNarrow() Content {
	if c.Tokens == nil {
		return c
	}
	ids, from := NarrowPool.Get(len(c.Tokens))
	if Fits16(Narrow(ids, c.Tokens)) {
		c.Tokens, c.NarrowTokens, c.Reusable = nil, ids, from != nil
	} else {
		c.Tokens = slices.Clone(c.Tokens)
	}
	return c
}

const (
	narrowBytes = 2 // bytes per narrow token id
	// NumberBytes is the size of a token id that is not narrow, of the length of a run, and of a weight (unit: bytes).
	NumberBytes = 4
	docNumbers  = 5 // numbers per document of a message with several, including its weight
)

// Bytes returns the memory of the content in bytes.
func (c Content) Bytes() int64 {
	n := cap(c.Tokens) + cap(c.Loss) + docNumbers*cap(c.Docs)
	if c.Weight != nil {
		n++
	}
	return NumberBytes*int64(n) + narrowBytes*int64(cap(c.NarrowTokens)) + c.Extra.bytes()
}
