package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"loaderd/internal/auth"
	"loaderd/internal/event"
	"loaderd/internal/logsample"
	"loaderd/loader/fault"
)

const (
	// defaultEvictAfter is how long a stream waits for memory before streams that have been blocked for as long are ended.
	defaultEvictAfter = 10 * time.Second
	// reserveEvictAfter replaces pressing for a stream whose reader reads, and for blocked streams that hold the reserve.
	reserveEvictAfter = 2 * time.Second
	// stallAfter is how long a reader may take nothing before its stream is stalled.
	stallAfter = time.Second
	// checksPerTimeout is the number of checks for slow readers within the configured limit.
	checksPerTimeout = 8
)

// slowReaderReaper ends streams whose readers take nothing. What gRPC has of a stream is released only when the reader
// takes it or the connection ends. So the stream ends first, with an error that a reader which resumes finds after its
// batches. Then the connection ends.
type slowReaderReaper struct {
	budget         *budget
	log            *slog.Logger
	samples        *logsample.Sampler
	cutConnections atomic.Uint64 // number of connections
	timeout        atomic.Int64  // nanoseconds for which a reader may take nothing
	evictAfter     atomic.Int64  // replaces pressing if not 0, in nanoseconds; set by tests
}

// run checks for slow readers until ctx is done.
func (s *slowReaderReaper) run(ctx context.Context) {
	for {
		after := time.Duration(s.timeout.Load())
		select {
		case <-ctx.Done():
			return
		case now := <-time.After(min(after/checksPerTimeout, stallAfter/2)):
			s.reap(now, after)
		}
	}
}

// reap ends the streams, and cuts the connections, that have exceeded their limit.
func (s *slowReaderReaper) reap(now time.Time, after time.Duration) {
	var ends []slowReader
	cuts := map[Connection][]slowReader{}
	b := s.budget
	b.mu.Lock()
	for h := range b.accounts {
		if h.inFlight > 0 && !h.stalled && now.Sub(h.lastProgress) >= stallAfter {
			b.markStalled(h)
		}
	}
	b.grantRequests() // for streams that waited behind stalled ones
	pressed := b.selectEvictions(now, min(after, time.Duration(cmp.Or(s.evictAfter.Load(), int64(defaultEvictAfter)))))
	for h := range b.accounts {
		if h.inFlight == 0 {
			continue
		}
		still := slowReader{h.endStream, h.share.identity, now.Sub(h.lastProgress), h.inFlight}
		if !h.reportedSlow && (still.waited >= after || pressed[h]) {
			h.reportedSlow = true
			ends = append(ends, still)
		}
		if h.connection != nil && (still.waited >= after+after/checksPerTimeout || pressed[h]) {
			cuts[h.connection] = append(cuts[h.connection], still)
		}
	}
	b.mu.Unlock()
	for _, x := range ends {
		x.endStream(x.streamError())
	}
	for c, of := range cuts {
		s.cutConnection(c, of)
	}
}

// slowReader is a stream whose reader takes nothing.
type slowReader struct {
	endStream func(error) // from its hold
	identity  string      // identity
	waited    time.Duration
	bytes     int64 // bytes that gRPC has of it
}

func (x slowReader) streamError() error {
	return &fault.Error{Reason: fault.SlowReader,
		Message: fmt.Sprintf("the reader has received nothing for %s, and its batches use %d bytes of memory",
			x.waited.Round(time.Millisecond), x.bytes),
		Advice: "request the same step again; a reader that pauses for longer than flight.slow_reader_timeout can do " +
			"this, or " +
			"close its stream first",
		Facts: map[string]string{"waited": x.waited.String(), "bytes": strconv.FormatInt(x.bytes, 10)}}
}

// cutConnection ends a connection and logs it once. Its streams end later and count as slow until then.
func (s *slowReaderReaper) cutConnection(c Connection, of []slowReader) {
	if !c.Cut() {
		return
	}
	s.cutConnections.Add(1)
	if tell, left := s.samples.Allow("slow reader"); tell {
		longest, bytes := time.Duration(0), int64(0)
		for _, x := range of {
			longest, bytes = max(longest, x.waited), bytes+x.bytes
		}
		args := []any{event.ReaderCut, "address", c.RemoteAddr().String(), "identity",
			auth.Identity{Name: of[0].identity}.String(), "streams",
			len(of), "bytes", bytes, "after", longest.Round(time.Millisecond)}
		if left > 0 {
			args = append(args, "more_of_the_kind", left)
		}
		s.log.Warn("closed a connection: its reader receives no data, and its batches use memory", args...)
	}
}

// selectEvictions returns blocked streams to end, to make room for the stream that has waited for longest, if that is
// at least after. It selects streams that have been blocked for at least after and keep that stream from its bytes,
// longest first, until they make enough room. If a stream that may use the reserve has waited for reserveEvictAfter, it
// also returns all blocked streams that hold bytes of the reserve. The caller holds mu.
func (b *budget) selectEvictions(now time.Time, after time.Duration) map[*account]bool {
	out := map[*account]bool{}
	within := min(after, reserveEvictAfter)
	if slices.ContainsFunc(b.reserveQueue, func(w *memoryRequest) bool { return now.Sub(w.since) >= within }) {
		for h := range b.accounts {
			if h.reserved > 0 && h.inFlight > 0 && now.Sub(h.lastProgress) >= within {
				out[h] = true
			}
		}
	}
	w := oldestRequest(slices.Concat(b.unproven.waitingShares, b.proven.waitingShares))
	if w == nil || now.Sub(w.since) < after {
		return out
	}
	var still []*account
	for h := range b.accounts {
		if h.inFlight > 0 && w.isBlockedBy(h) && now.Sub(h.lastProgress) >= after {
			still = append(still, h)
		}
	}
	slices.SortFunc(still, func(x, y *account) int { return x.lastProgress.Compare(y.lastProgress) })
	room := int64(0)
	for _, h := range still {
		if room >= w.bytes {
			break
		}
		out[h] = true
		room += h.bytes
	}
	return out
}

// oldestRequest returns the stream of some shares that has waited for longest; nil if none waits.
func oldestRequest(of []*share) (w *memoryRequest) {
	for _, s := range of {
		for _, line := range s.queues {
			if len(line) > 0 && (w == nil || line[0].since.Before(w.since)) {
				w = line[0]
			}
		}
	}
	return w
}

// isBlockedBy reports whether what h holds keeps w from its bytes, through the limit of its class, identity or
// share, or of all streams. The caller holds the budget's mu.
func (w *memoryRequest) isBlockedBy(h *account) bool {
	b := w.account.budget
	switch {
	case b.isUnprovenFull(w):
		return !h.share.proven
	case b.isIdentityFull(w):
		return h.share.identity == w.share.identity && h.share.proven == w.share.proven
	case b.isShareFull(w):
		return h.share == w.share
	}
	return true
}

// ReapSlowReaders performs the check of Watch as if the time were at.
func (r *Registry) ReapSlowReaders(at time.Time) {
	r.reaper.reap(at, time.Duration(r.reaper.timeout.Load()))
}

// SetEvictAfter sets how long a stream waits for memory before streams that have been blocked for as long are ended.
func (r *Registry) SetEvictAfter(d time.Duration) { r.reaper.evictAfter.Store(int64(d)) }
