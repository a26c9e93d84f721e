package mixture

import "slices"

// WalkOf returns the order of an epoch of a source with the given begin. last is the sequence of its last document;
// only a drawn order needs it.
func WalkOf(seed uint64, name string, c Source, begin Begin, last, epoch uint64) *Walk {
	s := source{name: name, config: c, begin: begin, last: last, epoch: epoch, drawn: begin.Sealed && c.Block > 0}
	return s.newWalk(seed)
}

// Place returns the position of a document in the epoch, which is the argument of At. ok is false if the epoch does
// not have the document.
func (w *Walk) Place(sequence uint64) (k uint64, ok bool) {
	if sequence < w.First || (w.Drawn || w.Last > 0) && sequence > w.Last {
		return 0, false
	}
	if !w.Drawn {
		return sequence - w.First, true
	}
	g := w.outer.place((sequence-w.First)/w.block) / w.each
	if w.group != g+1 {
		w.draw(g)
	}
	at := slices.Index(w.docs, sequence)
	return w.start(g) + uint64(max(at, 0)), at >= 0
}
