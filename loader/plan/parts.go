package plan

import (
	"fmt"
	"slices"

	"loaderd/packonline"
)

// Part is one of several documents of a message. Their tokens follow one another: a plan names tokens of the message, and so which of its documents.
//
// A document that is split is several Parts, which have its ID. Each is a document of its own but for the split of its source (mixture.Split): that takes
// all of them or none, so that no model is tested with what it has learnt the rest of.
type Part struct {
	ID     uint64 // hash of the producer's id, 0 for none
	Length int    // tokens, end-of-document token included
	Skip   Skip   // not empty: the document is not used
	Loss   Runs   // which of its tokens have a loss
	Cut    bool   // it had more tokens than documents.max_tokens lets it have
	Nth    int    // how many Parts of the same document come before it, where that is split
	Traits
}

// pieceOdds are by what the identities of a document's Parts differ: 2^64 divided by the golden ratio.
const pieceOdds = 0x9e3779b97f4a7c15

// identity is what tells the document from others: equal Parts of documents with the same id have the same one. 0 for none.
func (x Part) identity() uint64 {
	if x.ID == 0 || x.Nth == 0 {
		return x.ID
	}
	return max(x.ID+uint64(x.Nth)*pieceOdds, 1)
}

// partBits is how many bits the place of a document among the tokens of its message takes, in the name that a planner whose messages hold several gives it.
const partBits = 24

// MaxPartTokens bounds the tokens of a message with several documents.
const MaxPartTokens = 1 << partBits

// naming is how a planner names documents while they wait: by their position, and where messages hold several documents by their first token in it, too.
type naming struct{ bits uint }

// name returns the name of the document that begins with a token of the message at a position.
func (n naming) name(position uint64, first int) uint64 { return position<<n.bits | uint64(first) }

// position returns the position of a document's message.
func (n naming) position(document uint64) uint64 { return document &^ repeated >> n.bits }

// first returns where a document begins among the tokens of its message.
func (n naming) first(document uint64) int32 { return int32(document & (1<<n.bits - 1)) }

// count returns how many documents an arrival has.
func (a *Arrival) count() int { return max(len(a.Parts), 1) }

// part returns one of them.
func (a *Arrival) part(i int) Part {
	if len(a.Parts) > 0 {
		return a.Parts[i]
	}
	return Part{ID: a.ID, Length: a.Length, Skip: a.Skip, Loss: a.Loss, Cut: a.Cut, Traits: a.Traits}
}

// Documents returns all of them.
func (a Arrival) Documents() []Part {
	out := make([]Part, a.count())
	for i := range out {
		out[i] = a.part(i)
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

// Bare returns the arrival without its traits, too.
func (a Arrival) Bare() Arrival {
	a = a.Lengths()
	a.Traits = Traits{}
	for i := range a.Parts {
		a.Parts[i].Traits = Traits{}
	}
	return a
}

// identity is what stands for the id of document i in a split, where it has none.
func (a *Arrival) identity(i int, x Part) uint64 { return a.Sequence + uint64(i-x.Nth)<<sequenceBits }

// check refuses an arrival that the planner cannot name.
func (p *Planner) check(a *Arrival) error {
	if len(a.Parts) > 0 && !p.config.Documents.Several() {
		return fmt.Errorf("plan document %d: it holds %d documents, and the run takes one of each message", a.Sequence, len(a.Parts))
	}
	tokens := a.Length
	for _, x := range a.Parts {
		tokens += x.Length
	}
	if p.names.bits > 0 && tokens > MaxPartTokens {
		return fmt.Errorf("plan document %d: it has %d tokens, at most 2^%d can be", a.Sequence, tokens, partBits)
	}
	if p.names.bits > 0 && p.cursor.Next() >= 1<<(63-partBits) {
		return fmt.Errorf("plan document %d: a run whose messages hold several documents takes 2^%d of them", a.Sequence, 63-partBits)
	}
	return nil
}

// emit lets a piece name its document as a plan does: by the message, and by tokens of that.
func (n naming) emit(x *packonline.Piece) {
	x.Start += n.first(x.Doc)
	x.Doc = n.position(x.Doc)
}
