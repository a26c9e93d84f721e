package plan

import (
	"loaderd/loader/mixture"
	"loaderd/packonline/related"
)

// Arrival is what the Planner is told of one message of a source.
type Arrival struct {
	Source   int // number of the source that it comes from
	Sequence uint64
	ID       uint64   // hash of the producer's id, 0 for none
	Length   int      // tokens, end-of-document token included
	Skip     Skip     // not empty: the document is not used
	Loss     LossRuns // which of its tokens have a loss
	Cut      bool     // it had more tokens than documents.max_tokens lets it have
	PackingHints
	Parts []Part // of a message with several documents; then only Source and Sequence count besides
}

// PackingHints are what the planner is told of a document beside its length. They follow from the document alone, and
// are never its text. No state holds them: for a restored planner they are read again.
type PackingHints struct {
	Hint *related.Hint // what it is about, where the packing method asks for that; else nil
}

// Used returns how many tokens of a document a source takes that is configured so, duplicates aside.
func (a Arrival) Used(c mixture.Source) (tokens int) {
	for i := range a.Count() {
		if x := a.Document(i); a.SkipReason(i, x, c) == "" {
			tokens += x.Length
		}
	}
	return tokens
}

// SkipReason returns why document i is not used, by what its source is configured to take; empty where it is used,
// duplicates aside.
func (a *Arrival) SkipReason(i int, x Part, c mixture.Source) Skip {
	switch {
	case x.Skip != "":
		return x.Skip
	case !c.Split.Takes(x.ID, a.identity(i, x)):
		return SkipSplit
	case x.Length < c.MinTokens:
		return SkipShort
	case c.MaxTokens > 0 && x.Length > c.MaxTokens:
		return SkipLong
	}
	return ""
}
