package session

import (
	"time"

	"loaderd/loader/state"
)

// StreamStats describes an open DoGet stream and what it is sent.
type StreamStats struct {
	state.RankID
	Identity       string // identity; empty if callers have no names
	Address        string
	Since          time.Time     // when the stream was opened
	Step           uint64        // the step after the last one that it was sent completely
	Waiting        time.Duration // how long it has waited for its next step; 0 while it does not wait
	WaitP50        time.Duration // of the waits for the next step in the last minute, the present one included
	WaitP99        time.Duration
	BytesPerSecond float64 // per second, over the last ten seconds
}

const (
	recentPeriod     = time.Minute
	maxRecentReaders = 1 << 10 // readers that are remembered: 7 MB
)

// readerKey identifies a reader across its streams.
type readerKey struct {
	state.RankID
	identity string
}

// readerStats is what a reader was sent recently, by one stream or by several consecutive ones. A reader that received
// an error instead of a step opens its next stream immediately, and its waits continue to count. It is guarded by the
// mutex of the registry.
type readerStats struct {
	startedAt time.Time
	leftAt    time.Time // when the last of its streams ended
	waits     waitHistogram
	bytes     byteRate
}

func (s *Session) readerKey() readerKey { return readerKey{s.RankID, s.Identity.Name} }

// restoreStats continues the recent statistics of a reader, or starts new ones. The caller holds mu.
func (r *Registry) restoreStats(s *Session, now time.Time) {
	key := s.readerKey()
	s.stats = r.recentReaders[key]
	if s.stats == nil || now.Sub(s.stats.leftAt) > recentPeriod {
		s.stats = &readerStats{startedAt: now}
	}
	delete(r.recentReaders, key)
}

// keepStats keeps the statistics of a reader that has left for a minute. The caller holds mu.
func (r *Registry) keepStats(s *Session, now time.Time) {
	r.expireStats(now)
	if len(r.recentReaders) < maxRecentReaders {
		s.stats.leftAt = now
		r.recentReaders[s.readerKey()] = s.stats
	}
}

// expireStats removes readers that have not returned in time. The caller holds mu.
func (r *Registry) expireStats(now time.Time) {
	for key, x := range r.recentReaders {
		if now.Sub(x.leftAt) > recentPeriod {
			delete(r.recentReaders, key)
		}
	}
}

// streamStats describes the stream.
func (s *Session) streamStats(now time.Time) StreamStats {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	t := StreamStats{
		RankID: s.RankID, Identity: s.Identity.Name, Address: s.Address, Since: s.startedAt, Step: s.nextStep,
		BytesPerSecond: s.stats.bytes.rate(now, s.stats.startedAt),
	}
	if !s.waitingSince.IsZero() {
		t.Waiting = max(now.Sub(s.waitingSince), 1)
	}
	q := s.stats.waits.quantiles(now, t.Waiting, 0.5, 0.99)
	t.WaitP50, t.WaitP99 = q[0], q[1]
	return t
}

// expectReturn records that a reader is expected to return at a step. The caller does not hold mu.
func (r *Registry) expectReturn(s *Session, step uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.expectedReturns) >= maxExpectedReturns {
		clear(r.expectedReturns)
	}
	r.expectedReturns[s.RankID] = step
}
