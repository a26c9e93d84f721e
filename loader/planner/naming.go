package planner

import (
	"fmt"

	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// naming is how a planner names buffered documents: by the position of the message and, if messages hold several
// documents, also by the first token of the document in it.
type naming struct{ bits uint }

func newNaming(c runconfig.Documents) (n naming) {
	if c.CanHoldMultiple() {
		n.bits = plan.PartBits
	}
	return n
}

// name returns the name of the document that begins at token first of the message at a position.
func (n naming) name(position uint64, first int) uint64 { return position<<n.bits | uint64(first) }

// position returns the position of a document's message.
func (n naming) position(document uint64) uint64 { return document &^ repeatedFlag >> n.bits }

// offset returns the offset of a document among the tokens of its message.
func (n naming) offset(document uint64) int32 { return int32(document & (1<<n.bits - 1)) }

// checkArrival rejects a message that cannot be named at the given arrival.
func (n naming) checkArrival(a *plan.Arrival, arrival uint64) error {
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

// renamePiece renames the document of a piece as a plan names it: by the message and by tokens of the message.
func (n naming) renamePiece(x *packonline.Piece) {
	x.Start += n.offset(x.Doc)
	x.Doc = n.position(x.Doc)
}

// oldestPosition returns the least of low watermark and the positions before the documents of the pieces.
func (n naming) oldestPosition(pieces []packonline.Piece, lowWatermark plan.Position) plan.Position {
	for _, x := range pieces {
		lowWatermark = lowWatermark.Min(plan.PositionBefore(n.position(x.Doc)))
	}
	return lowWatermark
}
