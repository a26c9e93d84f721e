package loader

import (
	"slices"
	"sync"
	"time"

	"loaderd/loader/plan"
)

// Rates are how fast a run gets on, of the last ten seconds, and further back where less than two steps came in them; a second each.
type Rates struct {
	Published   float64 `json:"published_documents"` // into the streams of the run
	Documents   float64 `json:"documents"`           // planned
	TokensIn    float64 `json:"tokens_in"`           // of these
	Tokens      float64 `json:"tokens"`              // in steps, padding left out
	Rows        float64 `json:"rows"`                // in steps
	Steps       float64 `json:"steps"`               // planned
	Read        float64 `json:"steps_read"`          // by the rank that is furthest behind
	Undecodable float64 `json:"undecodable_documents"`
}

// beat is how far a run was at one moment, as it is known to this daemon.
type beat struct {
	at                         time.Time
	steps, read                uint64
	documents, tokensIn, undec int64
	tokens, rows               int64
	published                  uint64
	waits                      bool // a rank waits for a step that is not planned
	ended                      bool
}

// pulse remembers the beats of the last minutes. The leader's figures start anew with another leader at most by what that plans again.
type pulse struct {
	mu    sync.Mutex
	beats []beat // a second apart, oldest first
	moved time.Time
}

const (
	// beats are remembered.
	beats = 600
	// lately is how far back rates look at least.
	lately = 10 * time.Second
	// lastMinute is how far back the pace of a run is judged.
	lastMinute = time.Minute
)

func (p *pulse) add(b beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.beats); n == 0 || p.beats[n-1].steps != b.steps {
		p.moved = b.at
	}
	if len(p.beats) == beats {
		copy(p.beats, p.beats[1:])
		p.beats = p.beats[:beats-1]
	}
	p.beats = append(p.beats, b)
}

// span returns the newest beat and the one before it that rates count from; false while there are no two.
func (p *pulse) span() (from, to beat, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.beats) < 2 {
		return from, to, false
	}
	to = p.beats[len(p.beats)-1]
	for i := len(p.beats) - 2; i >= 0; i-- {
		from = p.beats[i]
		if to.at.Sub(from.at) >= lately && (to.ended || to.steps >= from.steps+2) {
			break
		}
	}
	return from, to, true
}

// still returns for how long no step has come.
func (p *pulse) still(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved.IsZero() {
		return 0
	}
	return now.Sub(p.moved)
}

// steps returns how many steps the last beats within a span added.
func (p *pulse) steps(span time.Duration) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to, ok := p.within(span)
	if !ok {
		return 0
	}
	return to.steps - min(to.steps, from.steps)
}

// interval returns the mean time between the steps of the last beats within a span; 0 with fewer than two steps.
func (p *pulse) interval(span time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to, ok := p.within(span)
	if !ok || to.steps < from.steps+2 {
		return 0
	}
	return to.at.Sub(from.at) / time.Duration(to.steps-from.steps)
}

// within returns the oldest beat within a span and the newest one; false without beats. The caller holds mu.
func (p *pulse) within(span time.Duration) (from, to beat, ok bool) {
	if len(p.beats) == 0 {
		return from, to, false
	}
	to = p.beats[len(p.beats)-1]
	i, _ := slices.BinarySearchFunc(p.beats, to.at.Add(-span), func(b beat, at time.Time) int { return b.at.Compare(at) })
	return p.beats[i], to, true
}

// waiting returns in which part of the last minute a rank waited for a step that was not planned.
func (p *pulse) waiting() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.beats[max(0, len(p.beats)-int(lastMinute/tellEvery)):]
	n := 0
	for _, b := range last {
		if b.waits {
			n++
		}
	}
	return float64(n) / float64(max(1, len(last)))
}

// waits reports whether a rank waited at the last beat.
func (p *pulse) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.beats) > 0 && p.beats[len(p.beats)-1].waits
}

// rates are those of the pulse.
func (p *pulse) rates() Rates {
	from, to, ok := p.span()
	if !ok {
		return Rates{}
	}
	a := func(v float64) float64 { return max(0, v) / max(to.at.Sub(from.at).Seconds(), 1e-3) }
	return Rates{Published: a(float64(to.published) - float64(from.published)), Documents: a(float64(to.documents - from.documents)), TokensIn: a(float64(to.tokensIn - from.tokensIn)),
		Tokens: a(float64(to.tokens - from.tokens)), Rows: a(float64(to.rows - from.rows)), Steps: a(float64(to.steps) - float64(from.steps)),
		Read: a(float64(to.read) - float64(from.read)), Undecodable: a(float64(to.undec - from.undec))}
}

// beat looks how far the run is.
func (f *follower) beat(now time.Time) {
	r, d := f.leader.report(), f.leader.demanded()
	p := &r.PlanStats
	known := f.plan.now()
	b := beat{at: now, steps: known.steps, ended: known.ended, documents: p.Packed.Documents + p.Counts.Skipped.Of(plan.SkipUndecodable), tokensIn: p.Packed.Tokens, undec: p.Counts.Skipped.Of(plan.SkipUndecodable), tokens: p.Counts.Tokens, rows: p.Counts.Rows,
		published: r.published()}
	b.waits = d.waits(b.steps)
	if s := d.leading(); s != nil {
		b.read = s.Step
	}
	f.pulse.add(b)
}

// published returns how many documents the streams of the run have taken, as far as the leader has heard.
func (r *report) published() (n uint64) {
	for _, s := range r.Sources {
		n += s.Last
	}
	if len(r.Sources) == 0 && r.Source != nil {
		n = r.Source.Last
	}
	return n
}
