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

// Padding returns the share of padding in the tokens of a run's rows.
func Padding(s loader.Stats) float64 { return Share(s.Padding, s.Slots) }

// Truncated returns the share of a run's documents that are split into several pieces.
func Truncated(s loader.Stats) float64 { return Share(s.Truncated, s.Documents) }

// CacheHits returns the share of documents that were in the cache when their rows were assembled.
func CacheHits(s loader.Stats) float64 { return Share(s.CacheHits, s.CacheHits+s.CacheMisses) }

// Counts are the counters for rates.
type Counts struct{ Documents, Tokens int64 }

// Planned returns the counters of the planner's input.
func Planned(s loader.Stats) Counts { return Counts{s.Documents, s.Tokens} }

// Rates are per second.
type Rates struct{ Documents, Tokens float64 }

// Between returns the rates between two moments, 0 if no time has passed.
func Between(then, now Counts, took time.Duration) Rates {
	seconds := took.Seconds()
	if seconds == 0 {
		return Rates{}
	}
	return Rates{float64(now.Documents-then.Documents) / seconds, float64(now.Tokens-then.Tokens) / seconds}
}

// lately is the time span of a Window's rates.
const lately = 2 * time.Second

// Window computes recent rates.
type Window struct{ past []moment }

type moment struct {
	at     time.Duration
	counts Counts
}

// Add adds counters, which must not be older than the last ones added. It returns the rates of the last two seconds.
func (w *Window) Add(at time.Duration, c Counts) Rates {
	for len(w.past) > 1 && at-w.past[1].at >= lately {
		w.past = w.past[1:]
	}
	var r Rates
	if len(w.past) > 0 {
		r = Between(w.past[0].counts, c, at-w.past[0].at)
	}
	w.past = append(w.past, moment{at, c})
	return r
}
