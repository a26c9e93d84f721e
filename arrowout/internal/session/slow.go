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
	// pressing is for how long a stream waits for memory before others lose theirs that have stood still for as long.
	pressing = 10 * time.Second
	// readerPressing is the same for a stream whose reader reads, and streams that keep the reserve from it.
	readerPressing = 2 * time.Second
	// stallAfter is for how long a reader may take nothing before its stream is stalled.
	stallAfter = time.Second
	// looks is how often within the longer of these times slow readers are looked for.
	looks = 8
)

// slowness ends streams whose readers take nothing. What gRPC has of a stream goes only when the reader takes it or the
// connection ends: so the stream ends first, with an error that a reader which goes on at last finds behind its
// batches, and then the connection.
type slowness struct {
	budget  *budget
	log     *slog.Logger
	samples *logsample.Sampler
	cuts    atomic.Uint64 // connections
	after   atomic.Int64  // nanoseconds that a reader may take nothing
	press   atomic.Int64  // pressing where it is 0; tests set another time, in nanoseconds
}

// watch looks for slow readers until ctx is done.
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

// look ends those streams, and cuts those connections, whose time is over.
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
	b.grant() // what stalled streams waited for
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
	end    func(error) // of its hold
	who    string      // identity
	waited time.Duration
	bytes  int64 // that gRPC has of it
}

func (x slow) err() error {
	return &fault.Error{Reason: fault.SlowReader,
		Message: fmt.Sprintf("the reader has taken nothing for %s, and its batches hold %d bytes of memory",
			x.waited.Round(time.Millisecond), x.bytes),
		Do: "ask again for the same step; a reader that pauses for longer than flight.slow_reader may do so, or " +
			"close its stream first",
		Facts: map[string]string{"waited": x.waited.String(), "bytes": strconv.FormatInt(x.bytes, 10)}}
}

// cut ends a connection. Its streams end later: until then they are slow still, and it is told once.
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
		s.log.Warn("a connection is cut: its reader takes nothing, and its batches hold memory", args...)
	}
}

// pressed returns the streams that stand still for after, from the one that does for longest, as many as make room for
// the one that has waited for as long. Those that do not keep it from its bytes are left alone. All streams that stand
// still with bytes of the reserve are among them where one that may have it has waited for readerPressing. The caller
// holds mu.
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

// longestWait returns the stream of some shares that has waited for longest; nil where none waits.
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

// obstructedBy reports whether what h holds keeps w from its bytes: by the limit of its class, its identity or its
// share, or by that of all streams. The caller holds the budget's mu.
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

// LookForSlowReaders does what Watch does at another time.
func (r *Registry) LookForSlowReaders(at time.Time) {
	r.reaper.look(at, time.Duration(r.reaper.after.Load()))
}

// PressAfter sets for how long a stream waits for memory before streams whose readers have taken nothing for as long
// are ended.
func (r *Registry) PressAfter(d time.Duration) { r.reaper.press.Store(int64(d)) }
