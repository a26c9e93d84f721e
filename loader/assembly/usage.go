package assembly

import (
	"maps"

	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// usageTracker tracks which documents of a cache are still needed. A document is needed if future steps will use its
// tokens, or if a reader may still request a step that uses it. This follows from the documents that the planner read,
// the steps that it made, and the readers' positions. A reader that starts earlier needs documents again that were
// unneeded; evicted ones are read again. So need only decides what is read twice, never what is served.
//
//   - A shown document is waiting until steps have used all its tokens, or until the low watermark of a step has passed
//     it.
//     Some tokens are never used: they may be dropped, used before a fork, or belong to a duplicate.
//   - A document that is not waiting is spent when all readers have passed the last step known to use its tokens.
//   - A document that was read again is not waiting. Later steps that need it become known when readers approach them.
type usageTracker struct {
	entries      map[uint64]*cacheEntry
	classify     func(*cacheEntry)   // moves a document to its current class
	recent       uint64              // number of latest steps that count as needed without readers
	nextPlanned  uint64              // next step to plan, as far as documents were shown
	readFrom     uint64              // the first step that readers may request; state.NoStep without readers
	neededFrom   uint64              // the first needed step
	dueDocuments map[uint64][]uint64 // documents that are not waiting, by the last step that needs them
	pending      lru                 // byArrival: waiting documents
	// cachedSteps has the steps from from on whose documents are all cached, with the approximate size of their rows in
	// bytes. It is nil once a needed document was evicted, because documents cached when a step was planned may then be
	// missing.
	cachedSteps map[uint64]int64
}

// documentUsage is the known need for one document.
type documentUsage struct {
	pendingTokens int64  // tokens that no step has used yet
	lastStep      uint64 // the last step that needs it
	dueKey        uint64 // its key in due, plus 1; 0 if it is not in due
	arrival       uint64 // last arrival under which the planner read it
	isPending     bool   // it is in the list of waiting documents
}

// isUnneeded reports whether a document is unneeded.
func (n *usageTracker) isUnneeded(x *cacheEntry) bool {
	return x.pendingTokens == 0 && x.lastStep < n.neededFrom
}

// addPending records that the planner reads a document, for the first time or again in a later epoch of its source.
func (n *usageTracker) addPending(x *cacheEntry, arrival uint64) {
	n.removePending(x)
	x.pendingTokens += int64(x.content.Len())
	x.arrival = arrival
	n.pending.pushBack(x)
	x.isPending = true
	n.classify(x)
}

// recordUse records that a step uses a document, and that many of its tokens for the first time.
func (n *usageTracker) recordUse(x *cacheEntry, step uint64, tokens int64) {
	x.lastStep = max(x.lastStep, step)
	n.setPending(x, x.pendingTokens-tokens)
}

// setPending sets how many tokens of a document no step has used yet.
func (n *usageTracker) setPending(x *cacheEntry, tokens int64) {
	x.pendingTokens = max(tokens, 0)
	if x.pendingTokens == 0 {
		n.removePending(x)
		if x.lastStep >= n.neededFrom && x.dueKey != x.lastStep+1 {
			n.dueDocuments[x.lastStep] = append(n.dueDocuments[x.lastStep], x.document)
			x.dueKey = x.lastStep + 1
		}
	}
	n.classify(x)
}

// applyStep records the tokens that a step uses.
func (n *usageTracker) applyStep(s *plan.Step) {
	n.nextPlanned = max(n.nextPlanned, s.Index+1)
	repeats, whole, bytes := s.Repeats, n.cachedSteps != nil && s.Index >= n.neededFrom, int64(0)
	for i, pieces := range s.Rows {
		for k, p := range pieces {
			tokens := int64(p.Length)
			if len(repeats) > 0 && repeats[0].Row == i && repeats[0].Piece == k {
				tokens -= int64(repeats[0].Tokens)
				repeats = repeats[1:]
			}
			x := n.entries[p.Doc]
			if x != nil {
				n.recordUse(x, s.Index, tokens)
			}
			whole, bytes = whole && x != nil, bytes+EstimateBytes(p.Length)
		}
	}
	if whole {
		n.cachedSteps[s.Index] = bytes
	}
	for x := n.pending.first; x != nil && s.LowWatermark.Covers(x.arrival); x = n.pending.first {
		n.setPending(x, 0)
	}
	n.updateNeeded()
}

// setReadFrom sets the first step that readers may request.
func (n *usageTracker) setReadFrom(step uint64) {
	n.readFrom = step
	n.updateNeeded()
}

// updateNeeded updates the first needed step.
func (n *usageTracker) updateNeeded() {
	before := n.neededFrom
	n.neededFrom = n.readFrom
	if n.readFrom == state.NoStep {
		n.neededFrom = n.nextPlanned - min(n.nextPlanned, n.recent)
	}
	if n.neededFrom <= before {
		return
	}
	if n.neededFrom-before > uint64(len(n.dueDocuments)+len(n.cachedSteps)) {
		maps.DeleteFunc(n.cachedSteps, func(step uint64, _ int64) bool { return step < n.neededFrom })
		for step := range n.dueDocuments {
			if step < n.neededFrom {
				n.dropStep(step)
			}
		}
		return
	}
	for step := before; step < n.neededFrom; step++ {
		n.dropStep(step)
	}
}

// dropStep records that a step is no longer needed.
func (n *usageTracker) dropStep(step uint64) {
	for _, document := range n.dueDocuments[step] {
		if x := n.entries[document]; x != nil && x.dueKey == step+1 {
			x.dueKey = 0
			n.classify(x)
		}
	}
	delete(n.dueDocuments, step)
	delete(n.cachedSteps, step)
}

// removePending removes a document from the waiting ones.
func (n *usageTracker) removePending(x *cacheEntry) {
	if x.isPending {
		n.pending.remove(x)
		x.isPending = false
	}
}
