// Package stats computes metrics from a run's counters: shares, and rates between two moments.
package stats

import (
	"time"

	"loaderd/loader"
)

// Share returns a/b, or 0 if b is 0.
func Share(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// PaddingShare returns the share of padding in the tokens of a run's rows.
func PaddingShare(s loader.Stats) float64 { return Share(s.Padding, s.Slots) }

// TruncatedShare returns the share of a run's documents that are split into several pieces.
func TruncatedShare(s loader.Stats) float64 { return Share(s.Truncated, s.Documents) }

// CacheHitShare returns the share of documents that were in the cache when their rows were assembled.
func CacheHitShare(s loader.Stats) float64 { return Share(s.CacheHits, s.CacheHits+s.CacheMisses) }

// Counts are the counters for rates.
type Counts struct{ Documents, Tokens int64 }

// PlannerCounts returns the counters of the planner's input.
func PlannerCounts(s loader.Stats) Counts { return Counts{s.Documents, s.Tokens} }

// Rates are per second.
type Rates struct{ Documents, Tokens float64 }

// RatesBetween returns the rates between two moments, 0 if no time has passed.
func RatesBetween(then, now Counts, took time.Duration) Rates {
	seconds := took.Seconds()
	if seconds == 0 {
		return Rates{}
	}
	return Rates{float64(now.Documents-then.Documents) / seconds, float64(now.Tokens-then.Tokens) / seconds}
}

// windowSpan is the time span of a Window's rates.
const windowSpan = 2 * time.Second

// RateWindow computes recent rates.
type RateWindow struct{ samples []sample }

type sample struct {
	at     time.Duration
	counts Counts
}

// Add adds counters, which must not be older than the last ones added. It returns the rates of the last two seconds.
func (w *RateWindow) Add(at time.Duration, c Counts) Rates {
	for len(w.samples) > 1 && at-w.samples[1].at >= windowSpan {
		w.samples = w.samples[1:]
	}
	var r Rates
	if len(w.samples) > 0 {
		r = RatesBetween(w.samples[0].counts, c, at-w.samples[0].at)
	}
	w.samples = append(w.samples, sample{at, c})
	return r
}
