package planner

import (
	"fmt"

	"loaderd/loader/plan"
	"loaderd/packonline"
)

// naming is how a planner names documents while they wait: by their position, and where messages hold several documents by their first token in it, too.
type naming struct{ bits uint }

func newNaming(c plan.DocumentsConfig) (n naming) {
	if c.Several() {
		n.bits = plan.PartBits
	}
	return n
}

// name returns the name of the document that begins with a token of the message at a position.
func (n naming) name(position uint64, first int) uint64 { return position<<n.bits | uint64(first) }

// position returns the position of a document's message.
func (n naming) position(document uint64) uint64 { return document &^ repeated >> n.bits }

// first returns where a document begins among the tokens of its message.
func (n naming) first(document uint64) int32 { return int32(document & (1<<n.bits - 1)) }

// check refuses an arrival that the planner cannot name.
func (p *Planner) check(a *plan.Arrival) error {
	if len(a.Parts) > 0 && !p.config.Documents.Several() {
		return fmt.Errorf("plan document %d: it holds %d documents, and the run takes one of each message", a.Sequence, len(a.Parts))
	}
	tokens := a.Length
	for _, x := range a.Parts {
		tokens += x.Length
	}
	if p.names.bits > 0 && tokens > plan.MaxPartTokens {
		return fmt.Errorf("plan document %d: it has %d tokens, at most 2^%d can be", a.Sequence, tokens, plan.PartBits)
	}
	if p.names.bits > 0 && p.cursor.Next() >= 1<<(63-plan.PartBits) {
		return fmt.Errorf("plan document %d: a run whose messages hold several documents takes 2^%d of them", a.Sequence, 63-plan.PartBits)
	}
	return nil
}

// emit lets a piece name its document as a plan does: by the message, and by tokens of that.
func (n naming) emit(x *packonline.Piece) {
	x.Start += n.first(x.Doc)
	x.Doc = n.position(x.Doc)
}
