package planner

import (
	"fmt"

	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// naming is how a planner names documents while they wait: by their position, and where messages hold several documents
// by their first token in it, too.
type naming struct{ bits uint }

func newNaming(c runconfig.Documents) (n naming) {
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

// check refuses a message that cannot be named as the arrival of a number.
func (n naming) check(a *plan.Arrival, arrival uint64) error {
	if n.bits == 0 {
		if len(a.Parts) > 0 {
			return fmt.Errorf("plan document %d: it holds %d documents, and the run takes one of each message",
				a.Sequence, len(a.Parts))
		}
		return nil
	}
	tokens := a.Length
	for _, x := range a.Parts {
		tokens += x.Length
	}
	if tokens > plan.MaxPartTokens {
		return fmt.Errorf("plan document %d: it has %d tokens, at most 2^%d can be", a.Sequence, tokens, plan.PartBits)
	}
	if arrival >= 1<<(63-plan.PartBits) {
		return fmt.Errorf("plan document %d: a run whose messages hold several documents takes 2^%d of them",
			a.Sequence, 63-plan.PartBits)
	}
	return nil
}

// emit lets a piece name its document as a plan does: by the message, and by tokens of that.
func (n naming) emit(x *packonline.Piece) {
	x.Start += n.first(x.Doc)
	x.Doc = n.position(x.Doc)
}

// oldest returns the part of a floor that covers no document of the pieces.
func (n naming) oldest(pieces []packonline.Piece, floor plan.Position) plan.Position {
	for _, x := range pieces {
		floor = floor.Least(plan.Before(n.position(x.Doc)))
	}
	return floor
}
