package plan

import (
	"slices"
)

// Part is one of several documents of a message. Their tokens follow one another: a plan names tokens of the message,
// and so which of its documents.
//
// A document that is split is several Parts, which have its ID. Each is a document of its own but for the split of its
// source (mixture.Split): that takes all of them or none, so that no model is tested with what it has learnt the rest
// of.
type Part struct {
	ID     uint64   // hash of the producer's id, 0 for none
	Length int      // tokens, end-of-document token included
	Skip   Skip     // not empty: the document is not used
	Loss   LossRuns // which of its tokens have a loss
	Cut    bool     // it had more tokens than documents.max_tokens lets it have
	Nth    int      // how many Parts of the same document come before it, where that is split
	PackingHints
}

// pieceOdds are by what the identities of a document's Parts differ: 2^64 divided by the golden ratio.
const pieceOdds = 0x9e3779b97f4a7c15

// Identity is what tells the document from others: equal Parts of documents with the same id have the same one. 0 for
// none.
func (x Part) Identity() uint64 {
	if x.ID == 0 || x.Nth == 0 {
		return x.ID
	}
	return max(x.ID+uint64(x.Nth)*pieceOdds, 1)
}

// PartBits is how many bits the place of a document among the tokens of its message takes, where messages hold several.
const PartBits = 24

// MaxPartTokens bounds the tokens of a message with several documents.
const MaxPartTokens = 1 << PartBits

// Count returns how many documents an arrival has.
func (a *Arrival) Count() int { return max(len(a.Parts), 1) }

// Document returns document i of the arrival.
func (a *Arrival) Document(i int) Part {
	if len(a.Parts) > 0 {
		return a.Parts[i]
	}
	return Part{ID: a.ID, Length: a.Length, Skip: a.Skip, Loss: a.Loss, Cut: a.Cut, PackingHints: a.PackingHints}
}

// Documents returns all documents of the arrival.
func (a Arrival) Documents() []Part {
	out := make([]Part, a.Count())
	for i := range out {
		out[i] = a.Document(i)
	}
	return out
}

// Lengths returns the arrival without what decides on no step: which tokens have a loss.
func (a Arrival) Lengths() Arrival {
	a.Loss, a.Parts = nil, slices.Clone(a.Parts)
	for i := range a.Parts {
		a.Parts[i].Loss = nil
	}
	return a
}

// Bare returns the arrival without packing hints, too.
func (a Arrival) Bare() Arrival {
	a = a.Lengths()
	a.PackingHints = PackingHints{}
	for i := range a.Parts {
		a.Parts[i].PackingHints = PackingHints{}
	}
	return a
}

// identity is what stands for the id of document i in a split, where it has none.
func (a *Arrival) identity(i int, x Part) uint64 { return a.Sequence + uint64(i-x.Nth)<<sequenceBits }
