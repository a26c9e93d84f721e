package plan

import (
	"slices"

	"loaderd/loader/filter"
	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// Part is one of several documents of a message. Their tokens are consecutive, so a plan names a document by tokens
// of the message.
//
// A split document consists of several Parts with its ID. Each is treated as a document, except by the split of
// its source (mixture.Split), which takes all of them or none. So no model is tested on a part of a document whose
// other parts it was trained on.
type Part struct {
	ID         uint64   // hash of the producer's id, 0 for none
	Length     int      // in tokens, including the end-of-document token
	Skip       Skip     // not empty: the document is not used
	Loss       LossRuns // which of its tokens have a loss
	Cut        bool     // tokens beyond documents.max_tokens were removed
	SplitIndex int      // number of earlier Parts of the same split document
	// Attributes are the inputs of filters; nil if unknown.
	Attributes *filter.Attributes
	PackingHints
}

// LossTokens returns how many tokens of the part have a loss.
func (x Part) LossTokens() int64 {
	return int64(x.Loss.LossTokens(packonline.Piece{Length: int32(x.Length)}))
}

// partIdentityStep is the difference between the identities of consecutive Parts of a document: 2^64 divided by the
// golden ratio.
const partIdentityStep = 0x9e3779b97f4a7c15

// Identity returns the deduplication id of the part: equal Parts of documents with the same id have the same one. 0
// means none.
func (x Part) Identity() uint64 {
	if x.ID == 0 || x.SplitIndex == 0 {
		return x.ID
	}
	return max(x.ID+uint64(x.SplitIndex)*partIdentityStep, 1)
}

// PartBits is the number of bits for the offset of a document among the tokens of its message, if messages hold
// several.
const PartBits = 24

// MaxPartTokens is the maximum number of tokens of a message with several documents.
const MaxPartTokens = 1 << PartBits

// DocumentCount returns the number of documents of an arrival.
func (a *Arrival) DocumentCount() int { return max(len(a.Parts), 1) }

// Document returns document i of the arrival.
func (a *Arrival) Document(i int) Part {
	if len(a.Parts) > 0 {
		return a.Parts[i]
	}
	return Part{ID: a.ID, Length: a.Length, Skip: a.Skip, Loss: a.Loss, Cut: a.Cut, Attributes: a.Attributes,
		PackingHints: a.PackingHints}
}

// Documents returns all documents of the arrival.
func (a Arrival) Documents() []Part {
	out := make([]Part, a.DocumentCount())
	for i := range out {
		out[i] = a.Document(i)
	}
	return out
}

// WithoutUnusedLoss returns the arrival without loss runs, unless they affect the shares of sources and so the steps.
func (a Arrival) WithoutUnusedLoss(unit mixture.ShareUnit) Arrival {
	if unit.CountsLoss() {
		return a
	}
	a.Loss, a.Parts = nil, slices.Clone(a.Parts)
	for i := range a.Parts {
		a.Parts[i].Loss = nil
	}
	return a
}

// LengthsOnly returns the arrival without packing hints, attributes, and loss runs that do not affect steps.
func (a Arrival) LengthsOnly(unit mixture.ShareUnit) Arrival {
	a = a.WithoutUnusedLoss(unit)
	a.Parts = slices.Clone(a.Parts)
	a.PackingHints, a.Attributes = PackingHints{}, nil
	for i := range a.Parts {
		a.Parts[i].PackingHints, a.Parts[i].Attributes = PackingHints{}, nil
	}
	return a
}

// splitIdentity returns what a split uses instead of the id for a document i without one.
func (a *Arrival) splitIdentity(i int, x Part) uint64 {
	return a.Sequence + uint64(i-x.SplitIndex)<<sequenceBits
}
