package diagnosis

import (
	"sync"
	"time"

	"loaderd/loader/fault"
)

const (
	// changeAfter is how long another kind of verdict must last before it is shown, unless the run fails or ends.
	changeAfter = 3 * time.Second
	// stallAfter is the minimum time without a step after which waiting readers make a run Waiting.
	stallAfter = 5 * time.Second
	// slowStep is the longest interval between the steps of a run that is Running while its readers wait.
	slowStep = 30 * time.Second
)

// Steady holds the verdict that is shown. Its kind changes only when another kind has lasted; the figures of the
// sentence are always the latest ones.
type Steady struct {
	mu      sync.Mutex
	shown   Verdict
	known   bool
	differs time.Time // since when new verdicts have another kind than shown; zero while they do not
}

// kind is a verdict without its text and figures.
type kind struct {
	health Health
	reason fault.Reason
	limits string
}

func (v Verdict) kind() kind { return kind{v.Health, v.Reason, v.Limits} }

// Take processes a new verdict. A verdict of a failing run is shown immediately.
func (s *Steady) Take(now time.Time, v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.known, v.Health == Failing, v.kind() == s.shown.kind():
	case s.differs.IsZero():
		s.differs = now
		return
	case now.Sub(s.differs) < changeAfter:
		return
	}
	s.shown, s.known, s.differs = v, true, time.Time{}
}

// Verdict returns the verdict that is shown; false before the first.
func (s *Steady) Verdict() (Verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown, s.known
}

// stalls reports whether a run with waiting readers is Waiting: no step was planned for longer than its recent steps
// took. A run that is already Waiting becomes Running with the second step within slowStep. So a run does not flap
// between the two at any steady pace of documents.
func (p *RateSampler) stalls(now time.Time, waiting bool) bool {
	if waiting && p.steps(slowStep) < 2 {
		return true
	}
	return p.still(now) >= min(max(stallAfter, 3*p.interval(lastMinute)), slowStep)
}

// idles reports whether ranks that request no step have been idle for longer than their steps take.
func (p *RateSampler) idles(now time.Time) bool {
	return p.still(now) >= max(idleAfter, 3*p.interval(beats*BeatInterval))
}
