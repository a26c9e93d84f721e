package diagnosis

import (
	"slices"
	"sync"
	"time"

	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// Sample is a sample of a run's progress, as observed by this daemon.
type Sample struct {
	at                               time.Time
	steps, read                      uint64
	documents, tokensIn, undecodable int64
	tokens, rows                     int64
	published                        uint64
	hasWaitingTrainer                bool // a rank waits for a step that is not planned
}

// Sample returns a sample of the run's progress. The step of the evidence must be the next one to be planned.
func (e Evidence) Sample(now time.Time) Sample {
	p := &e.Report.PlanStats
	b := Sample{at: now, steps: e.Step, documents: p.PackCounts.Documents + p.Counts.Skipped.Count(plan.SkipUndecodable),
		tokensIn:    p.PackCounts.Tokens,
		undecodable: p.Counts.Skipped.Count(plan.SkipUndecodable), tokens: p.Counts.Tokens, rows: p.Counts.Rows,
		published: e.Report.PublishedDocuments()}
	b.hasWaitingTrainer = newWait(e).hasWaitingTrainer()
	for _, j := range e.Ranks.Jobs {
		b.read = max(b.read, j.MinConsumed)
	}
	return b
}

// RateSampler holds the beats of the last minutes. After a change of leader, the leader's figures go back at most by
// what it replays.
type RateSampler struct {
	mu         sync.Mutex
	samples    []Sample // a second apart, oldest first
	lastStepAt time.Time
}

const (
	// SampleInterval is the time between two beats.
	SampleInterval = time.Second
	// maxSamples is the maximum number of beats held.
	maxSamples = 600
	// ratePeriod is the minimum period over which rates are computed.
	ratePeriod = 10 * time.Second
	// pacePeriod is the period over which the pace of a run is judged.
	pacePeriod = time.Minute
)

// Add adds the next beat.
func (p *RateSampler) Add(b Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.samples); n == 0 || p.samples[n-1].steps != b.steps {
		p.lastStepAt = b.at
	}
	if len(p.samples) == maxSamples {
		copy(p.samples, p.samples[1:])
		p.samples = p.samples[:maxSamples-1]
	}
	p.samples = append(p.samples, b)
}

// stepSamples returns the beats between which steps are counted: those of the last ten seconds or, if these have fewer
// than two steps, those of the last two steps. ok is false once the next step is overdue by an interval. The caller
// holds mu.
func (p *RateSampler) stepSamples(steps func(Sample) uint64) (from, to Sample, ok bool) {
	from, to, ok = p.samplesWithin(ratePeriod)
	if !ok || steps(to) >= steps(from)+2 {
		return from, to, ok
	}
	last := len(p.samples) - 1
	for last > 0 && steps(p.samples[last-1]) == steps(to) {
		last--
	}
	first := last - 1
	for first > 0 && steps(p.samples[first-1]) == steps(p.samples[first]) {
		first--
	}
	if last == 0 || to.at.Sub(p.samples[last].at) > 2*p.samples[last].at.Sub(p.samples[first].at) {
		return from, to, false
	}
	return p.samples[first], p.samples[last], true
}

// sinceLastStep returns the time since the last step was planned.
func (p *RateSampler) sinceLastStep(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastStepAt.IsZero() {
		return 0
	}
	return now.Sub(p.lastStepAt)
}

// stepsWithin returns how many steps were planned during the last beats within a span.
func (p *RateSampler) stepsWithin(span time.Duration) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to, ok := p.samplesWithin(span)
	if !ok {
		return 0
	}
	return to.steps - min(to.steps, from.steps)
}

// stepInterval returns the mean time between the steps of the last beats within a span; 0 with fewer than two steps.
func (p *RateSampler) stepInterval(span time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to, ok := p.samplesWithin(span)
	if !ok || to.steps < from.steps+2 {
		return 0
	}
	return to.at.Sub(from.at) / time.Duration(to.steps-from.steps)
}

// samplesWithin returns the oldest beat within a span and the newest one; false without beats. The caller holds mu.
func (p *RateSampler) samplesWithin(span time.Duration) (from, to Sample, ok bool) {
	if len(p.samples) == 0 {
		return from, to, false
	}
	to = p.samples[len(p.samples)-1]
	i, _ := slices.BinarySearchFunc(p.samples, to.at.Add(-span), func(b Sample, at time.Time) int {
		return b.at.Compare(at)
	})
	return p.samples[i], to, true
}

// waitingFraction returns the part of the last minute during which a rank waited for a step that was not planned.
func (p *RateSampler) waitingFraction() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.samples[max(0, len(p.samples)-int(pacePeriod/SampleInterval)):]
	n := 0
	for _, b := range last {
		if b.hasWaitingTrainer {
			n++
		}
	}
	return float64(n) / float64(max(1, len(last)))
}

// HasWaitingRank reports whether a rank waited at the last beat.
func (p *RateSampler) HasWaitingRank() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.samples) > 0 && p.samples[len(p.samples)-1].hasWaitingTrainer
}

// Rates returns the current rates of the run.
func (p *RateSampler) Rates() (r state.Rates) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rate := func(from, to Sample, of func(Sample) float64) float64 {
		return max(0, of(to)-of(from)) / max(to.at.Sub(from.at).Seconds(), 1e-3)
	}
	if from, to, ok := p.samplesWithin(ratePeriod); ok {
		r.Published = rate(from, to, func(b Sample) float64 { return float64(b.published) })
		r.Documents = rate(from, to, func(b Sample) float64 { return float64(b.documents) })
		r.TokensIn = rate(from, to, func(b Sample) float64 { return float64(b.tokensIn) })
		r.Undecodable = rate(from, to, func(b Sample) float64 { return float64(b.undecodable) })
	}
	if from, to, ok := p.stepSamples(func(b Sample) uint64 { return b.steps }); ok {
		r.Steps = rate(from, to, func(b Sample) float64 { return float64(b.steps) })
		r.Tokens = rate(from, to, func(b Sample) float64 { return float64(b.tokens) })
		r.Rows = rate(from, to, func(b Sample) float64 { return float64(b.rows) })
	}
	if from, to, ok := p.stepSamples(func(b Sample) uint64 { return b.read }); ok {
		r.StepsRead = rate(from, to, func(b Sample) float64 { return float64(b.read) })
	}
	return r
}
