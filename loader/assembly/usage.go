package assembly

import (
	"maps"

	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// need knows which documents of a cache are needed still: those of which steps to come will take tokens, and those of
// steps that a reader may still ask for. It follows from what the planner saw, what its steps took, and where the
// readers are. A reader that begins earlier needs again what was not needed before it; what of that is gone is read
// again. So it decides what is read twice, and never what is served.
//
//  1. A document that was shown waits until steps have taken all its tokens, or until the floor of a step has passed
//     it: tokens may be dropped, taken
//     before a fork, or those of a duplicate.
//  2. A document that does not wait is spent when all readers have passed the last step that is known to take tokens of
//     it.
//  3. A document that was read again does not wait: which steps further on need it is known when readers come near
//     them.
type need struct {
	held   map[uint64]*cached
	sort   func(*cached)       // puts a document where it belongs now
	recent uint64              // steps behind the newest one that are as needed without readers
	head   uint64              // the step that is planned next, as far as documents were shown
	reads  uint64              // the first step that readers may ask for; state.EveryStep without readers
	from   uint64              // the first step that counts as needed
	due    map[uint64][]uint64 // documents that do not wait, by the step that needs them last
	shown  lru                 // byArrival: those that wait
	// whole has the steps from from on all of whose documents are held, with about the bytes that their rows take. It is
	// nil from when a document that is needed had to go: then nothing follows from what was there when a step was planned.
	whole map[uint64]int64
}

// requirement is what is known of the need for one document.
type requirement struct {
	waiting int64  // tokens that no step has taken yet
	last    uint64 // step that needs it
	due     uint64 // the step behind the one under which it stands in due; 0: under none
	arrival uint64 // by which the planner saw it last
	shown   bool   // stands among those that were shown: it waits
}

// spent reports whether nobody needs a document.
func (n *need) spent(x *cached) bool { return x.waiting == 0 && x.last < n.from }

// expect notes that the planner sees a document: for the first time, or once more in a later epoch of its source.
func (n *need) expect(x *cached, arrival uint64) {
	n.forget(x)
	x.waiting += int64(x.content.Len())
	x.arrival = arrival
	n.shown.pushBack(x)
	x.shown = true
	n.sort(x)
}

// require notes that a step takes tokens of a document, so many of them for the first time.
func (n *need) require(x *cached, step uint64, tokens int64) {
	x.last = max(x.last, step)
	n.wait(x, x.waiting-tokens)
}

// wait notes how many tokens of a document no step has taken yet.
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

// take notes what a step takes.
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

// read notes the first step that readers may ask for.
func (n *need) read(step uint64) {
	n.reads = step
	n.move()
}

// move finds out from which step on documents are needed.
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

// pass notes that a step is needed no more.
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

// forget takes a document out of those that wait.
func (n *need) forget(x *cached) {
	if x.shown {
		n.shown.remove(x)
		x.shown = false
	}
}
