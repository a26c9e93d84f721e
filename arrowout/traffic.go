package arrowout

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"loaderd/loader/state"
)

// Traffic is what an open DoGet stream gets: that of a rank which reads at this moment.
type Traffic struct {
	state.Place
	Who     string // identity; empty where callers have no names
	Address string
	Since   time.Time     // when the stream was opened
	Step    uint64        // behind the last one that it was sent whole
	Waits   time.Duration // for which it has waited for its next step; 0 while it does not
	WaitP50 time.Duration // of the last minute's waits for the next step, the present one included
	WaitP99 time.Duration
	Bytes   float64 // a second, of the last ten
}

// Traffic describes all open streams, by job, world and rank.
func (s *Server) Traffic() []Traffic { return s.traffic.now(time.Now()) }

// traffic knows the open streams. It remembers for a minute what those that have ended got: a reader that was told why there is no step comes again at once,
// and its waits count on.
type traffic struct {
	mu   sync.Mutex
	open map[*flow]struct{}
	left map[flowKey]*recent
}

type flowKey struct {
	state.Place
	who string
}

const (
	remembered = time.Minute
	maxLeft    = 1 << 10 // readers that are remembered: 7 MB
)

// flow is an open stream.
type flow struct {
	flowKey
	address string
	since   time.Time
	*recent

	// Under the mu of recent:
	step    uint64
	waiting time.Time // since when it has waited for its next step; zero while it does not
}

// recent is what a reader got lately, by one stream or by several that followed each other.
type recent struct {
	began time.Time
	gone  time.Time // when the last of its streams ended; under the mu of traffic

	mu    sync.Mutex
	waits recentWaits
	bytes recentBytes
}

func newTraffic() *traffic {
	return &traffic{open: map[*flow]struct{}{}, left: map[flowKey]*recent{}}
}

// begin notes a stream that reads from a step on, end that it has ended.
func (t *traffic) begin(now time.Time, at state.Place, who, address string, step uint64) *flow {
	f := &flow{flowKey: flowKey{at, who}, address: address, since: now, step: step}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.recent = t.left[f.flowKey]; f.recent == nil || now.Sub(f.gone) > remembered {
		f.recent = &recent{began: now}
	}
	delete(t.left, f.flowKey)
	t.open[f] = struct{}{}
	return f
}

func (t *traffic) end(now time.Time, f *flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, f)
	t.forget(now)
	if len(t.left) < maxLeft {
		f.gone = now
		t.left[f.flowKey] = f.recent
	}
}

// forget drops readers that have not come again. The caller holds mu.
func (t *traffic) forget(now time.Time) {
	for key, r := range t.left {
		if now.Sub(r.gone) > remembered {
			delete(t.left, key)
		}
	}
}

func (t *traffic) now(now time.Time) []Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(now)
	out := make([]Traffic, 0, len(t.open))
	for f := range t.open {
		out = append(out, f.now(now))
	}
	slices.SortFunc(out, func(a, b Traffic) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank), a.Since.Compare(b.Since))
	})
	return out
}

func (f *flow) now(now time.Time) Traffic {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := Traffic{Place: f.Place, Who: f.who, Address: f.address, Since: f.since, Step: f.step, Bytes: f.bytes.rate(now, f.began)}
	if !f.waiting.IsZero() {
		t.Waits = max(now.Sub(f.waiting), 1)
	}
	q := f.waits.quantiles(now, t.Waits, 0.5, 0.99)
	t.WaitP50, t.WaitP99 = q[0], q[1]
	return t
}

// asks notes that the reader waits for its next step.
func (f *flow) asks(now time.Time) {
	f.mu.Lock()
	f.waiting = now
	f.mu.Unlock()
}

// got notes that it has the step, or was told why there is none.
func (f *flow) got(now time.Time, waited time.Duration) {
	f.mu.Lock()
	f.waiting = time.Time{}
	f.waits.add(now, waited)
	f.mu.Unlock()
}

// sent notes a batch that gRPC has taken. A send that stands still may end behind its stream.
func (f *flow) sent(now time.Time, b sending) {
	f.mu.Lock()
	if b.Part == b.Parts-1 {
		f.step = b.Step + 1
	}
	f.bytes.add(now, b.message.size())
	f.mu.Unlock()
}
