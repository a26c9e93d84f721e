package diagnosis

import (
	"sync"
	"time"

	"loaderd/loader/fault"
)

const (
	// debounceTime is how long another kind of verdict must last before it is shown, unless the run fails or ends.
	debounceTime = 3 * time.Second
	// stallAfter is the minimum time without a step after which waiting readers make a run Waiting.
	stallAfter = 5 * time.Second
	// maxStepInterval is the longest interval between the steps of a run that is Running while its readers wait.
	maxStepInterval = 30 * time.Second
)

// VerdictDebouncer holds the verdict that is shown. Its kind changes only when another kind has lasted; the figures of
// the sentence are always the latest ones.
type VerdictDebouncer struct {
	mu           sync.Mutex
	shown        Verdict
	hasVerdict   bool
	differsSince time.Time // since when new verdicts have another kind than shown; zero while they do not
}

// verdictKind is a verdict without its text and figures.
type verdictKind struct {
	health     Health
	reason     fault.Reason
	bottleneck string
}

func (v Verdict) kind() verdictKind { return verdictKind{v.Health, v.Reason, v.Bottleneck} }

// Update processes a new verdict. A verdict of a failing run is shown immediately.
func (s *VerdictDebouncer) Update(now time.Time, v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.hasVerdict, v.Health == Failing, v.kind() == s.shown.kind():
	case s.differsSince.IsZero():
		s.differsSince = now
		return
	case now.Sub(s.differsSince) < debounceTime:
		return
	}
	s.shown, s.hasVerdict, s.differsSince = v, true, time.Time{}
}

// Verdict returns the verdict that is shown; false before the first.
func (s *VerdictDebouncer) Verdict() (Verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown, s.hasVerdict
}

// isStalled reports whether a run with waiting readers is Waiting: no step was planned for longer than its recent steps
// took. A run that is already Waiting becomes Running with the second step within maxStepInterval. So a run does not
// flap between the two at any steady pace of documents.
func (p *RateSampler) isStalled(now time.Time, waiting bool) bool {
	if waiting && p.stepsWithin(maxStepInterval) < 2 {
		return true
	}
	return p.sinceLastStep(now) >= min(max(stallAfter, 3*p.stepInterval(pacePeriod)), maxStepInterval)
}

// isIdle reports whether ranks that request no step have been idle for longer than their steps take.
func (p *RateSampler) isIdle(now time.Time) bool {
	return p.sinceLastStep(now) >= max(idleAfter, 3*p.stepInterval(maxSamples*SampleInterval))
}
