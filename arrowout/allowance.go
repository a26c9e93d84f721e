package arrowout

import "time"

// allowance is a token bucket to which tokens can be returned.
type allowance struct {
	perSecond, burst float64
	left             float64
	at               time.Time // when left was computed
}

func newAllowance(perSecond, burst float64) *allowance {
	return &allowance{perSecond: perSecond, burst: burst, left: burst}
}

// take removes a token. It returns false if none is left.
func (a *allowance) take(now time.Time) bool {
	a.refill(now)
	if a.left < 1 {
		return false
	}
	a.left--
	return true
}

// putBack returns a token.
func (a *allowance) putBack() { a.left = min(a.left+1, a.burst) }

func (a *allowance) refill(now time.Time) {
	if !a.at.IsZero() {
		a.left = min(a.left+a.perSecond*now.Sub(a.at).Seconds(), a.burst)
	}
	a.at = now
}
