package planner

import (
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// tolerance is a part of a step. The drawn bucket may deviate from the shares by this much more than another bucket.
// So the order of the buckets is random if the sources have similar lengths.
const tolerance = 1. / 8

// slack returns the tolerance for the smallest step as a difference of two results of shareBalancer.distance.
func (q *queues) slack() float64 {
	least := int64(0)
	for i := range q.buckets {
		if n := int64(q.buckets[i].rows) * int64(q.buckets[i].length); i == 0 || n < least {
			least = n
		}
	}
	x := tolerance * mixture.Unit * float64(least)
	return float64(x * x)
}

// forgetShares removes the shares of documents that are no longer buffered.
func (p *Planner) forgetShares() {
	if h := &p.sources.history; len(h.spans) > 1 {
		_, steps := p.positions()
		h.forget(steps)
	}
}

// positions returns the numbers of tokens that have left the window and the queues. These positions determine the
// targets of the tokens that leave next.
func (p *Planner) positions() (window, queues int64) {
	window = p.sources.mix.Tokens() - p.packs.pending().Tokens - plan.RowTokens(p.fork.left) - p.sources.shuffled
	queues = window
	for i := range p.queues.buckets {
		queues -= p.queues.buckets[i].tokens
	}
	return window, queues
}

// followShares sets the targets for the tokens that leave the window and the queues next.
func (p *Planner) followShares() {
	b := p.sources
	if len(b.history.spans) == 1 {
		b.rows.follow(b.history.spans[0].shares)
		b.steps.follow(b.history.spans[0].shares)
		return
	}
	window, queues := p.positions()
	b.rows.follow(b.history.at(window))
	b.steps.follow(b.history.at(queues))
}

// enter adds an atom to the window. A drain gathers all atoms first, so that the window can choose among all of them.
func (p *Planner) enter(a atom) {
	p.sources.shuffled += plan.RowTokens(a.pieces)
	if p.sources.several() {
		if p.sources.drains && p.config.Shuffle.Window > 1 {
			p.window.Gather(a)
			return
		}
		p.followShares()
	}
	p.window.Add(a, p.arrange)
}

// leave records that an atom has left the window.
func (p *Planner) leave(a *atom) {
	p.sources.shuffled -= plan.RowTokens(a.pieces)
	if p.sources.several() { // a single source always has its share
		p.sources.rows.leave(p.sources.portionsOf(a))
		p.followShares()
	}
}

// evens reports whether buckets are chosen by the shares of their steps.
func (p *Planner) evens() bool { return p.sources.several() && len(p.queues.buckets) > 1 }

// nextStep returns the bucket that emits the next step if more than keep full steps wait, else nil. last reports that
// no further row follows.
//
// A step holds rows of one bucket, so most of its tokens belong to sources whose documents have such lengths. With
// several sources, the drawn bucket is replaced by the one that keeps the shares closest, if that one is closer by
// more than the tolerance.
func (p *Planner) nextStep(keep int, last bool) *queue {
	best := p.queues.next(keep, last)
	if best == nil || !p.evens() {
		return best
	}
	p.followShares()
	b := p.sources
	least := b.steps.distance(b.head(best)) - p.queues.slack()
	for i := range p.queues.buckets {
		q := &p.queues.buckets[i]
		if !q.ready(last) {
			continue
		}
		if d := b.steps.distance(b.head(q)); d < least {
			best, least = q, d
		}
	}
	return best
}

// head returns the number of tokens by source in the next step of a bucket.
func (b *sourceSet) head(q *queue) []portion {
	if len(q.head) == 0 {
		for _, r := range q.wait[:min(q.rows, len(q.wait))] {
			b.count(r.pieces)
		}
		q.head = b.tally.portions(q.head)
	}
	return q.head
}
