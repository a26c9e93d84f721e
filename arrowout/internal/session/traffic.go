package session

import (
	"time"

	"loaderd/loader/state"
)

// Traffic describes an open DoGet stream and what it is sent.
type Traffic struct {
	state.Place
	Who     string // identity; empty if callers have no names
	Address string
	Since   time.Time     // when the stream was opened
	Step    uint64        // the step after the last one that it was sent completely
	Waits   time.Duration // how long it has waited for its next step; 0 while it does not wait
	WaitP50 time.Duration // of the waits for the next step in the last minute, the present one included
	WaitP99 time.Duration
	Bytes   float64 // per second, over the last ten seconds
}

const (
	remembered = time.Minute
	maxRecent  = 1 << 10 // readers that are remembered: 7 MB
)

// readerKey identifies a reader across its streams.
type readerKey struct {
	state.Place
	who string
}

// recent is what a reader was sent recently, by one stream or by several consecutive ones. A reader that received an
// error instead of a step opens its next stream immediately, and its waits continue to count. It is guarded by the
// mutex of the registry.
type recent struct {
	began time.Time
	gone  time.Time // when the last of its streams ended
	waits recentWaits
	bytes recentBytes
}

func (s *Session) readerKey() readerKey { return readerKey{s.Place, s.Identity.Name} }

// remember continues the recent statistics of a reader, or starts new ones. The caller holds mu.
func (r *Registry) remember(s *Session, now time.Time) {
	key := s.readerKey()
	s.recent = r.recent[key]
	if s.recent == nil || now.Sub(s.recent.gone) > remembered {
		s.recent = &recent{began: now}
	}
	delete(r.recent, key)
}

// rest keeps the statistics of a reader that has left for a minute. The caller holds mu.
func (r *Registry) rest(s *Session, now time.Time) {
	r.forget(now)
	if len(r.recent) < maxRecent {
		s.recent.gone = now
		r.recent[s.readerKey()] = s.recent
	}
}

// forget removes readers that have not returned in time. The caller holds mu.
func (r *Registry) forget(now time.Time) {
	for key, x := range r.recent {
		if now.Sub(x.gone) > remembered {
			delete(r.recent, key)
		}
	}
}

// traffic describes the stream.
func (s *Session) traffic(now time.Time) Traffic {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	t := Traffic{
		Place: s.Place, Who: s.Identity.Name, Address: s.Address, Since: s.began, Step: s.next,
		Bytes: s.recent.bytes.rate(now, s.recent.began),
	}
	if !s.waiting.IsZero() {
		t.Waits = max(now.Sub(s.waiting), 1)
	}
	q := s.recent.waits.quantiles(now, t.Waits, 0.5, 0.99)
	t.WaitP50, t.WaitP99 = q[0], q[1]
	return t
}

// expect records that a reader is expected to return at a step. The caller does not hold mu.
func (r *Registry) expect(s *Session, step uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.expected) >= maxExpected {
		clear(r.expected)
	}
	r.expected[s.Place] = step
}
