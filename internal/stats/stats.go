// Package stats makes figures of what a run counts: shares, and rates between two moments.
package stats

import (
	"time"

	"loaderd/loader"
)

// Share is a/b, or 0 where there is no b.
func Share(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Padding is the share of padding in the tokens of a run's rows.
func Padding(s loader.Stats) float64 { return Share(s.Padding, s.Slots) }

// Truncated is the share of a run's documents that are split into more than one piece.
func Truncated(s loader.Stats) float64 { return Share(s.Truncated, s.Documents) }

// CacheHits is the share of documents that were in the cache when their rows were assembled.
func CacheHits(s loader.Stats) float64 { return Share(s.CacheHits, s.CacheHits+s.CacheMisses) }

// Counts are what rates are made of.
type Counts struct{ Documents, Tokens int64 }

// Planned counts what the planner has taken in.
func Planned(s loader.Stats) Counts { return Counts{s.Documents, s.Tokens} }

// Rates are counts a second.
type Rates struct{ Documents, Tokens float64 }

// Between are the rates from then to now; 0 where no time has passed.
func Between(then, now Counts, took time.Duration) Rates {
	seconds := took.Seconds()
	if seconds == 0 {
		return Rates{}
	}
	return Rates{float64(now.Documents-then.Documents) / seconds, float64(now.Tokens-then.Tokens) / seconds}
}

// lately is how far back the rates of a Window look.
const lately = 2 * time.Second

// Window makes rates of the last moments.
type Window struct{ past []moment }

type moment struct {
	at     time.Duration
	counts Counts
}

// Add adds the counts of a moment, which are not before those added last, and returns the rates of the last two
// seconds.
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
