package arrowout

import "time"

// tokenBucket is a token bucket to which tokens can be returned.
type tokenBucket struct {
	perSecond, burst float64
	tokens           float64
	refilledAt       time.Time // when left was computed
}

func newTokenBucket(perSecond, burst float64) *tokenBucket {
	return &tokenBucket{perSecond: perSecond, burst: burst, tokens: burst}
}

// takeToken removes a token. It returns false if none is left.
func (a *tokenBucket) takeToken(now time.Time) bool {
	a.refill(now)
	if a.tokens < 1 {
		return false
	}
	a.tokens--
	return true
}

// returnToken returns a token.
func (a *tokenBucket) returnToken() { a.tokens = min(a.tokens+1, a.burst) }

func (a *tokenBucket) refill(now time.Time) {
	if !a.refilledAt.IsZero() {
		a.tokens = min(a.tokens+a.perSecond*now.Sub(a.refilledAt).Seconds(), a.burst)
	}
	a.refilledAt = now
}
