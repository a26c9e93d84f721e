package mixture

import "slices"

// NewEpochOrder returns the order of an epoch of a source with the given begin. last is the sequence of its last
// document; only a drawn order needs it.
func NewEpochOrder(seed uint64, name string, c Source, begin SourceRange, last, epoch uint64) *EpochOrder {
	s := source{name: name, config: c, initialRange: begin, last: last, epoch: epoch, shuffled: begin.Sealed &&
		c.Block > 0}
	return s.newEpochOrder(seed)
}

// Index returns the position of a document in the epoch, which is the argument of At. ok is false if the epoch does
// not have the document.
func (w *EpochOrder) Index(sequence uint64) (k uint64, ok bool) {
	if sequence < w.First || (w.Shuffled || w.Last > 0) && sequence > w.Last {
		return 0, false
	}
	if !w.Shuffled {
		return sequence - w.First, true
	}
	g := w.blockOrder.preimage((sequence-w.First)/w.block) / w.groupBlocks
	if w.loadedGroup != g+1 {
		w.loadGroup(g)
	}
	at := slices.Index(w.docs, sequence)
	return w.groupStart(g) + uint64(max(at, 0)), at >= 0
}
