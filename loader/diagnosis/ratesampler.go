package diagnosis

import (
	"slices"
	"sync"
	"time"

	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// Beat is a sample of a run's progress, as observed by this daemon.
type Beat struct {
	at                         time.Time
	steps, read                uint64
	documents, tokensIn, undec int64
	tokens, rows               int64
	published                  uint64
	waits                      bool // a rank waits for a step that is not planned
}

// Beat returns a sample of the run's progress. The step of the evidence must be the next one to be planned.
func (e Evidence) Beat(now time.Time) Beat {
	p := &e.Report.PlanStats
	b := Beat{at: now, steps: e.Step, documents: p.Packed.Documents + p.Counts.Skipped.Of(plan.SkipUndecodable),
		tokensIn: p.Packed.Tokens,
		undec:    p.Counts.Skipped.Of(plan.SkipUndecodable), tokens: p.Counts.Tokens, rows: p.Counts.Rows,
		published: e.Report.Published()}
	b.waits = newWait(e).waits()
	for _, j := range e.Ranks.Jobs {
		b.read = max(b.read, j.Least)
	}
	return b
}

// RateSampler holds the beats of the last minutes. After a change of leader, the leader's figures go back at most by
// what it replays.
type RateSampler struct {
	mu    sync.Mutex
	beats []Beat // a second apart, oldest first
	moved time.Time
}

const (
	// BeatInterval is the time between two beats.
	BeatInterval = time.Second
	// beats is the maximum number of beats held.
	beats = 600
	// lately is the minimum period over which rates are computed.
	lately = 10 * time.Second
	// lastMinute is the period over which the pace of a run is judged.
	lastMinute = time.Minute
)

// Add adds the next beat.
func (p *RateSampler) Add(b Beat) {
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

// stepwise returns the beats between which steps are counted: those of the last ten seconds or, if these have fewer
// than two steps, those of the last two steps. ok is false once the next step is overdue by an interval. The caller
// holds mu.
func (p *RateSampler) stepwise(steps func(Beat) uint64) (from, to Beat, ok bool) {
	from, to, ok = p.within(lately)
	if !ok || steps(to) >= steps(from)+2 {
		return from, to, ok
	}
	last := len(p.beats) - 1
	for last > 0 && steps(p.beats[last-1]) == steps(to) {
		last--
	}
	first := last - 1
	for first > 0 && steps(p.beats[first-1]) == steps(p.beats[first]) {
		first--
	}
	if last == 0 || to.at.Sub(p.beats[last].at) > 2*p.beats[last].at.Sub(p.beats[first].at) {
		return from, to, false
	}
	return p.beats[first], p.beats[last], true
}

// still returns the time since the last step was planned.
func (p *RateSampler) still(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved.IsZero() {
		return 0
	}
	return now.Sub(p.moved)
}

// steps returns how many steps were planned during the last beats within a span.
func (p *RateSampler) steps(span time.Duration) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to, ok := p.within(span)
	if !ok {
		return 0
	}
	return to.steps - min(to.steps, from.steps)
}

// interval returns the mean time between the steps of the last beats within a span; 0 with fewer than two steps.
func (p *RateSampler) interval(span time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to, ok := p.within(span)
	if !ok || to.steps < from.steps+2 {
		return 0
	}
	return to.at.Sub(from.at) / time.Duration(to.steps-from.steps)
}

// within returns the oldest beat within a span and the newest one; false without beats. The caller holds mu.
func (p *RateSampler) within(span time.Duration) (from, to Beat, ok bool) {
	if len(p.beats) == 0 {
		return from, to, false
	}
	to = p.beats[len(p.beats)-1]
	i, _ := slices.BinarySearchFunc(p.beats, to.at.Add(-span), func(b Beat, at time.Time) int { return b.at.Compare(at) })
	return p.beats[i], to, true
}

// waiting returns the part of the last minute during which a rank waited for a step that was not planned.
func (p *RateSampler) waiting() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.beats[max(0, len(p.beats)-int(lastMinute/BeatInterval)):]
	n := 0
	for _, b := range last {
		if b.waits {
			n++
		}
	}
	return float64(n) / float64(max(1, len(last)))
}

// Waits reports whether a rank waited at the last beat.
func (p *RateSampler) Waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.beats) > 0 && p.beats[len(p.beats)-1].waits
}

// Rates returns the current rates of the run.
func (p *RateSampler) Rates() (r state.Rates) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rate := func(from, to Beat, of func(Beat) float64) float64 {
		return max(0, of(to)-of(from)) / max(to.at.Sub(from.at).Seconds(), 1e-3)
	}
	if from, to, ok := p.within(lately); ok {
		r.Published = rate(from, to, func(b Beat) float64 { return float64(b.published) })
		r.Documents = rate(from, to, func(b Beat) float64 { return float64(b.documents) })
		r.TokensIn = rate(from, to, func(b Beat) float64 { return float64(b.tokensIn) })
		r.Undecodable = rate(from, to, func(b Beat) float64 { return float64(b.undec) })
	}
	if from, to, ok := p.stepwise(func(b Beat) uint64 { return b.steps }); ok {
		r.Steps = rate(from, to, func(b Beat) float64 { return float64(b.steps) })
		r.Tokens = rate(from, to, func(b Beat) float64 { return float64(b.tokens) })
		r.Rows = rate(from, to, func(b Beat) float64 { return float64(b.rows) })
	}
	if from, to, ok := p.stepwise(func(b Beat) uint64 { return b.read }); ok {
		r.Read = rate(from, to, func(b Beat) float64 { return float64(b.read) })
	}
	return r
}
