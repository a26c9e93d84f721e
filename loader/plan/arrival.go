package plan

import (
	"loaderd/loader/filter"
	"loaderd/loader/mixture"
	"loaderd/packonline/similarity"
)

// Arrival is the planner's input for one message of a source.
type Arrival struct {
	Source   int // number of its source
	Sequence uint64
	ID       uint64   // hash of the producer's id, 0 for none
	Length   int      // in tokens, including the end-of-document token
	Skip     Skip     // not empty: the document is not used
	Loss     LossRuns // which of its tokens have a loss
	Cut      bool     // tokens beyond documents.max_tokens were removed
	// Attributes are the inputs of filters; nil if unknown.
	Attributes *filter.Attributes
	PackingHints
	Parts []Part // of a message with several documents; then only Source and Sequence are used as well
}

// PackingHints are inputs of the planner for a document in addition to its length. They are derived from the document
// alone and never contain its text. No state contains them: for a restored planner they are read again.
type PackingHints struct {
	Hint *similarity.Hint // similarity hint, if the packing method uses hints; else nil
}

// Selection determines which documents of a source are used.
type Selection struct {
	Source  string         // name
	Config  mixture.Source // of the source; its Where is not used
	Filters Filters
}

// Filters are the filters of a run and of a source. A document must match both.
type Filters struct{ Run, Source *filter.Filter }

// IsEmpty reports whether the filters match every document.
func (f Filters) IsEmpty() bool { return f.Run == nil && f.Source == nil }

// UsedTokens returns how many tokens of the arrival are used with the given selection of its source, ignoring
// duplicates.
func (a Arrival) UsedTokens(s *Selection) (tokens int) {
	for i := range a.DocumentCount() {
		if x := a.Document(i); a.SkipReason(i, x, s) == "" {
			tokens += x.Length
		}
	}
	return tokens
}

// UsedLossTokens returns how many of the tokens that UsedTokens counts have a loss.
func (a Arrival) UsedLossTokens(s *Selection) (tokens int64) {
	for i := range a.DocumentCount() {
		if x := a.Document(i); a.SkipReason(i, x, s) == "" {
			tokens += x.LossTokens()
		}
	}
	return tokens
}

// SkipReason returns why document i is not used with the given selection of its source, or the empty string if it
// is used. It ignores duplicates.
func (a *Arrival) SkipReason(i int, x Part, s *Selection) Skip {
	c := &s.Config
	switch {
	case x.Skip != "":
		return x.Skip
	case !c.Split.Includes(x.ID, a.splitIdentity(i, x)):
		return SkipSplit
	case x.Length < c.MinTokens:
		return SkipShort
	case c.MaxTokens > 0 && x.Length > c.MaxTokens:
		return SkipLong
	case !s.Filters.Run.Matches(x.Attributes, s.Source, x.Length) ||
		!s.Filters.Source.Matches(x.Attributes, s.Source, x.Length):
		return SkipFiltered
	}
	return ""
}
