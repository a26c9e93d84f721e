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
	// pressing is how long a stream waits for memory before streams that have been blocked for as long are ended.
	pressing = 10 * time.Second
	// readerPressing replaces pressing for a stream whose reader reads, and for blocked streams that hold the reserve.
	readerPressing = 2 * time.Second
	// stallAfter is how long a reader may take nothing before its stream is stalled.
	stallAfter = time.Second
	// looks is the number of checks for slow readers within the configured limit.
	looks = 8
)

// slowness ends streams whose readers take nothing. What gRPC has of a stream is released only when the reader takes
// it or the connection ends. So the stream ends first, with an error that a reader which resumes finds after its
// batches. Then the connection ends.
type slowness struct {
	budget  *budget
	log     *slog.Logger
	samples *logsample.Sampler
	cuts    atomic.Uint64 // number of connections
	after   atomic.Int64  // nanoseconds for which a reader may take nothing
	press   atomic.Int64  // replaces pressing if not 0, in nanoseconds; set by tests
}

// watch checks for slow readers until ctx is done.
func (s *slowness) watch(ctx context.Context) {
	for {
		after := time.Duration(s.after.Load())
		select {
		case <-ctx.Done():
			return
		case now := <-time.After(min(after/looks, stallAfter/2)):
			s.look(now, after)
		}
	}
}

// look ends the streams, and cuts the connections, that have exceeded their limit.
func (s *slowness) look(now time.Time, after time.Duration) {
	var ends []slow
	cuts := map[Connection][]slow{}
	b := s.budget
	b.mu.Lock()
	for h := range b.holds {
		if h.out > 0 && !h.stalled && now.Sub(h.moved) >= stallAfter {
			b.stall(h)
		}
	}
	b.grant() // for streams that waited behind stalled ones
	pressed := b.pressed(now, min(after, time.Duration(cmp.Or(s.press.Load(), int64(pressing)))))
	for h := range b.holds {
		if h.out == 0 {
			continue
		}
		still := slow{h.end, h.share.who, now.Sub(h.moved), h.out}
		if !h.told && (still.waited >= after || pressed[h]) {
			h.told = true
			ends = append(ends, still)
		}
		if h.from != nil && (still.waited >= after+after/looks || pressed[h]) {
			cuts[h.from] = append(cuts[h.from], still)
		}
	}
	b.mu.Unlock()
	for _, x := range ends {
		x.end(x.err())
	}
	for c, of := range cuts {
		s.cut(c, of)
	}
}

// slow is a stream whose reader takes nothing.
type slow struct {
	end    func(error) // from its hold
	who    string      // identity
	waited time.Duration
	bytes  int64 // bytes that gRPC has of it
}

func (x slow) err() error {
	return &fault.Error{Reason: fault.SlowReader,
		Message: fmt.Sprintf("the reader has taken nothing for %s, and its batches hold %d bytes of memory",
			x.waited.Round(time.Millisecond), x.bytes),
		Do: "ask again for the same step; a reader that pauses for longer than flight.slow_reader may do so, or " +
			"close its stream first",
		Facts: map[string]string{"waited": x.waited.String(), "bytes": strconv.FormatInt(x.bytes, 10)}}
}

// cut ends a connection and logs it once. Its streams end later and count as slow until then.
func (s *slowness) cut(c Connection, of []slow) {
	if !c.Cut() {
		return
	}
	s.cuts.Add(1)
	if tell, left := s.samples.Allow("slow reader"); tell {
		longest, bytes := time.Duration(0), int64(0)
		for _, x := range of {
			longest, bytes = max(longest, x.waited), bytes+x.bytes
		}
		args := []any{event.ReaderCut, "address", c.RemoteAddr().String(), "identity",
			auth.Identity{Name: of[0].who}.String(), "streams",
			len(of), "bytes", bytes, "after", longest.Round(time.Millisecond)}
		if left > 0 {
			args = append(args, "more_of_the_kind", left)
		}
		s.log.Warn("closed a connection: its reader takes no data, and its batches hold memory", args...)
	}
}

// pressed returns blocked streams to end, to make room for the stream that has waited for longest, if that is at
// least after. It selects streams that have been blocked for at least after and keep that stream from its bytes,
// longest first, until they make enough room. If a stream that may use the reserve has waited for readerPressing, it
// also returns all blocked streams that hold bytes of the reserve. The caller holds mu.
func (b *budget) pressed(now time.Time, after time.Duration) map[*hold]bool {
	out := map[*hold]bool{}
	within := min(after, readerPressing)
	if slices.ContainsFunc(b.readers, func(w *wait) bool { return now.Sub(w.since) >= within }) {
		for h := range b.holds {
			if h.spare > 0 && h.out > 0 && now.Sub(h.moved) >= within {
				out[h] = true
			}
		}
	}
	w := longestWait(slices.Concat(b.fresh.turns, b.proven.turns))
	if w == nil || now.Sub(w.since) < after {
		return out
	}
	var still []*hold
	for h := range b.holds {
		if h.out > 0 && w.obstructedBy(h) && now.Sub(h.moved) >= after {
			still = append(still, h)
		}
	}
	slices.SortFunc(still, func(x, y *hold) int { return x.moved.Compare(y.moved) })
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

// longestWait returns the stream of some shares that has waited for longest; nil if none waits.
func longestWait(of []*share) (w *wait) {
	for _, s := range of {
		for _, line := range s.waits {
			if len(line) > 0 && (w == nil || line[0].since.Before(w.since)) {
				w = line[0]
			}
		}
	}
	return w
}

// obstructedBy reports whether what h holds keeps w from its bytes, through the limit of its class, identity or
// share, or of all streams. The caller holds the budget's mu.
func (w *wait) obstructedBy(h *hold) bool {
	b := w.hold.budget
	switch {
	case b.freshFull(w):
		return !h.share.proven
	case b.identityFull(w):
		return h.share.who == w.in.who && h.share.proven == w.in.proven
	case b.shareFull(w):
		return h.share == w.in
	}
	return true
}

// LookForSlowReaders performs the check of Watch as if the time were at.
func (r *Registry) LookForSlowReaders(at time.Time) {
	r.reaper.look(at, time.Duration(r.reaper.after.Load()))
}

// PressAfter sets how long a stream waits for memory before streams that have been blocked for as long are ended.
func (r *Registry) PressAfter(d time.Duration) { r.reaper.press.Store(int64(d)) }
