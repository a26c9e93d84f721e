package planner

import (
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// shareTolerance is a part of a step. The drawn bucket may deviate from the shares by this much more than another
// bucket. So the order of the buckets is random if the sources have similar lengths.
const shareTolerance = 1. / 8

// distanceTolerance returns the tolerance for the smallest step as a difference of two results of
// shareBalancer.distance. With shares of tokens with a loss, it is the tolerance for the next step of the drawn bucket.
func (b *sourceSet) distanceTolerance(q *queues, drawn *queue) float64 {
	least := int64(0)
	if b.losses == nil {
		least = q.smallestStep()
	} else {
		for _, x := range b.stepPortions(drawn) {
			least += x.tokens
		}
	}
	x := shareTolerance * mixture.Unit * float64(least)
	return float64(x * x)
}

// smallestStep returns the number of tokens of the smallest step, including padding.
func (q *queues) smallestStep() (least int64) {
	for i := range q.buckets {
		if n := int64(q.buckets[i].stepRows) * int64(q.buckets[i].length); i == 0 || n < least {
			least = n
		}
	}
	return least
}

// forgetShares removes the shares of documents that are no longer buffered.
func (p *Planner) forgetShares() {
	if h := &p.sources.history; len(h.spans) > 1 {
		_, steps := p.tokenPositions()
		h.forgetBefore(steps)
	}
}

// tokenPositions returns the numbers of tokens that have left the window and the queues. These positions determine the
// targets of the tokens that leave next.
func (p *Planner) tokenPositions() (window, queues int64) {
	window = p.sources.mix.Tokens() - p.packers.pending().Tokens - plan.RowTokens(
		p.fork.inheritedDocuments) - p.sources.windowTokens
	queues = window
	for i := range p.queues.buckets {
		queues -= p.queues.buckets[i].tokens
	}
	return window, queues
}

// updateShareTargets sets the targets for the tokens that leave the window and the queues next.
func (p *Planner) updateShareTargets() {
	b := p.sources
	if len(b.history.spans) == 1 {
		b.rowBalancer.setTargets(b.history.spans[0].shares)
		b.stepBalancer.setTargets(b.history.spans[0].shares)
		return
	}
	window, queues := p.tokenPositions()
	b.rowBalancer.setTargets(b.history.sharesAt(window))
	b.stepBalancer.setTargets(b.history.sharesAt(queues))
}

// addToWindow adds an atom to the window. A flush gathers all atoms first, so that the window can choose among all of
// them.
func (p *Planner) addToWindow(a atom) {
	p.sources.windowTokens += plan.RowTokens(a.pieces)
	if p.sources.hasMultipleSources() {
		if p.sources.flushes && p.config.Shuffle.Window > 1 {
			p.window.Buffer(a)
			return
		}
		p.updateShareTargets()
	}
	p.window.Add(a, p.makeRows)
}

// recordLeaving records that an atom has left the window.
func (p *Planner) recordLeaving(a *atom) {
	p.sources.windowTokens -= plan.RowTokens(a.pieces)
	if p.sources.hasMultipleSources() { // a single source always has its share
		p.sources.rowBalancer.recordLeaving(p.sources.atomPortions(a))
		p.updateShareTargets()
	}
}

// usesShareOrder reports whether buckets are chosen by the shares of their steps.
func (p *Planner) usesShareOrder() bool {
	return p.sources.hasMultipleSources() && len(p.queues.buckets) > 1
}

// chooseQueue returns the bucket that emits the next step if more than keep full steps wait, else nil. last reports
// that no further row follows.
//
// A step holds rows of one bucket, so most of its tokens belong to sources whose documents have such lengths. With
// several sources, the drawn bucket is replaced by the one that keeps the shares closest, if that one is closer by
// more than the tolerance.
func (p *Planner) chooseQueue(keep int, last bool) *queue {
	if p.rowLengths.outdated {
		return nil
	}
	best := p.queues.chooseQueue(keep, last)
	if best == nil || !p.usesShareOrder() {
		return best
	}
	p.updateShareTargets()
	b := p.sources
	least := b.stepBalancer.distance(b.stepPortions(best)) - b.distanceTolerance(&p.queues, best)
	for i := range p.queues.buckets {
		q := &p.queues.buckets[i]
		if !q.hasStep(last) {
			continue
		}
		if d := b.stepBalancer.distance(b.stepPortions(q)); d < least {
			best, least = q, d
		}
	}
	return best
}

// stepPortions returns the number of tokens by source in the next step of a bucket, in the unit of the shares.
func (b *sourceSet) stepPortions(q *queue) []portion {
	if len(q.nextPortions) == 0 {
		for _, r := range q.waitingRows[:min(q.stepRows, len(q.waitingRows))] {
			b.tallyPieces(r.pieces)
		}
		q.nextPortions = b.tally.takePortions(q.nextPortions)
	}
	return q.nextPortions
}
