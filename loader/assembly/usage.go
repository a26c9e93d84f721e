package assembly

import (
	"maps"

	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// need tracks which documents of a cache are still needed. A document is needed if future steps will use its tokens,
// or if a reader may still request a step that uses it. This follows from the documents that the planner read, the
// steps that it made, and the readers' positions. A reader that starts earlier needs documents again that were
// unneeded; evicted ones are read again. So need only decides what is read twice, never what is served.
//
//   - A shown document is waiting until steps have used all its tokens, or until the floor of a step has passed it.
//     Some tokens are never used: they may be dropped, used before a fork, or belong to a duplicate.
//   - A document that is not waiting is spent when all readers have passed the last step known to use its tokens.
//   - A document that was read again is not waiting. Later steps that need it become known when readers approach them.
type need struct {
	held   map[uint64]*cached
	sort   func(*cached)       // moves a document to its current class
	recent uint64              // number of latest steps that count as needed without readers
	head   uint64              // next step to plan, as far as documents were shown
	reads  uint64              // the first step that readers may request; state.EveryStep without readers
	from   uint64              // the first needed step
	due    map[uint64][]uint64 // documents that are not waiting, by the last step that needs them
	shown  lru                 // byArrival: waiting documents
	// whole has the steps from from on whose documents are all cached, with the approximate size of their rows in bytes.
	// It is nil once a needed document was evicted, because documents cached when a step was planned may then be
	// missing.
	whole map[uint64]int64
}

// requirement is the known need for one document.
type requirement struct {
	waiting int64  // tokens that no step has used yet
	last    uint64 // the last step that needs it
	due     uint64 // its key in due, plus 1; 0 if it is not in due
	arrival uint64 // last arrival under which the planner read it
	shown   bool   // it is in the list of waiting documents
}

// spent reports whether a document is unneeded.
func (n *need) spent(x *cached) bool { return x.waiting == 0 && x.last < n.from }

// expect records that the planner reads a document, for the first time or again in a later epoch of its source.
func (n *need) expect(x *cached, arrival uint64) {
	n.forget(x)
	x.waiting += int64(x.content.Len())
	x.arrival = arrival
	n.shown.pushBack(x)
	x.shown = true
	n.sort(x)
}

// require records that a step uses a document, and that many of its tokens for the first time.
func (n *need) require(x *cached, step uint64, tokens int64) {
	x.last = max(x.last, step)
	n.wait(x, x.waiting-tokens)
}

// wait sets how many tokens of a document no step has used yet.
func (n *need) wait(x *cached, tokens int64) {
	x.waiting = max(tokens, 0)
	if x.waiting == 0 {
		n.forget(x)
		if x.last >= n.from && x.due != x.last+1 {
			n.due[x.last] = append(n.due[x.last], x.document)
			x.due = x.last + 1
		}
	}
	n.sort(x)
}

// take records the tokens that a step uses.
func (n *need) take(s *plan.Step) {
	n.head = max(n.head, s.Index+1)
	repeats, whole, bytes := s.Repeats, n.whole != nil && s.Index >= n.from, int64(0)
	for i, pieces := range s.Rows {
		for k, p := range pieces {
			tokens := int64(p.Length)
			if len(repeats) > 0 && repeats[0].Row == i && repeats[0].Piece == k {
				tokens -= int64(repeats[0].Tokens)
				repeats = repeats[1:]
			}
			x := n.held[p.Doc]
			if x != nil {
				n.require(x, s.Index, tokens)
			}
			whole, bytes = whole && x != nil, bytes+MemoryOf(p.Length)
		}
	}
	if whole {
		n.whole[s.Index] = bytes
	}
	for x := n.shown.first; x != nil && s.Floor.Covers(x.arrival); x = n.shown.first {
		n.wait(x, 0)
	}
	n.move()
}

// read sets the first step that readers may request.
func (n *need) read(step uint64) {
	n.reads = step
	n.move()
}

// move updates the first needed step.
func (n *need) move() {
	before := n.from
	n.from = n.reads
	if n.reads == state.EveryStep {
		n.from = n.head - min(n.head, n.recent)
	}
	if n.from <= before {
		return
	}
	if n.from-before > uint64(len(n.due)+len(n.whole)) {
		maps.DeleteFunc(n.whole, func(step uint64, _ int64) bool { return step < n.from })
		for step := range n.due {
			if step < n.from {
				n.pass(step)
			}
		}
		return
	}
	for step := before; step < n.from; step++ {
		n.pass(step)
	}
}

// pass records that a step is no longer needed.
func (n *need) pass(step uint64) {
	for _, document := range n.due[step] {
		if x := n.held[document]; x != nil && x.due == step+1 {
			x.due = 0
			n.sort(x)
		}
	}
	delete(n.due, step)
	delete(n.whole, step)
}

// forget removes a document from the waiting ones.
func (n *need) forget(x *cached) {
	if x.shown {
		n.shown.remove(x)
		x.shown = false
	}
}
