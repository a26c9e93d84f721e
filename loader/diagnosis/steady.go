package diagnosis

import (
	"sync"
	"time"

	"loaderd/loader/fault"
)

const (
	// changeAfter is how long another kind of verdict lasts before it is shown, unless the run fails or ends.
	changeAfter = 3 * time.Second
	// stallAfter is the least time without a step after which readers that wait make a run Waiting.
	stallAfter = 5 * time.Second
	// slowStep is the longest interval between the steps of a run that is Running while its readers wait.
	slowStep = 30 * time.Second
)

// Steady holds the verdict that is shown. It changes its kind only when another kind has lasted; the figures of the
// sentence are always those of the last look.
type Steady struct {
	mu      sync.Mutex
	shown   Verdict
	known   bool
	differs time.Time // since when verdicts are of another kind than shown; zero while they are not
}

// kind is a verdict without its text and figures.
type kind struct {
	health Health
	reason fault.Reason
	limits string
}

func (v Verdict) kind() kind { return kind{v.Health, v.Reason, v.Limits} }

// Take takes in the verdict of a moment. That of a run that fails is shown at once.
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

// stalls reports whether a run whose readers wait is Waiting: no step was planned for longer than its steps took
// lately. One that is Waiting already is Running again with the second step within slowStep. So no steady pace of
// documents makes a run change between the two.
func (p *RateSampler) stalls(now time.Time, waiting bool) bool {
	if waiting && p.steps(slowStep) < 2 {
		return true
	}
	return p.still(now) >= min(max(stallAfter, 3*p.interval(lastMinute)), slowStep)
}

// idles reports whether ranks that ask for no step have been idle for longer than their steps take.
func (p *RateSampler) idles(now time.Time) bool {
	return p.still(now) >= max(idleAfter, 3*p.interval(beats*BeatInterval))
}
