// Package session has the open streams of a Flight server. A Session is one stream: its caller, its rank and job, the
// memory of its batches, and what it was sent. The Registry holds all of them behind one mutex: limits, ranks, memory
// with its fair queue, the detection of slow readers, and the figures of the status page.
package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/tally"
	"loaderd/internal/auth"
	"loaderd/internal/logsample"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

const (
	// maxJobs bounds the jobs as which streams read at the same time, maxJobsOfOne those of one identity. Daemons send
	// each other the ranks of each job in their heartbeats.
	maxJobs      = 256
	maxJobsOfOne = 64
	// maxExpected bounds the number of expected readers that are remembered, because some never return.
	maxExpected = 1 << 16
)

// Limits bound the open streams.
type Limits struct {
	Streams      int           // all open streams
	StreamsOfOne int           // open streams of one identity
	Bytes        int64         // bytes of record batches that are assembled or not taken yet, over all streams
	SlowReader   time.Duration // how long a reader may take nothing while data is available
}

// Connection is the connection of a stream. Its values are comparable, for example pointers.
type Connection interface {
	// Closed reports whether the connection has ended.
	Closed() bool
	// Cut ends the connection immediately. It reports whether this is the first call.
	Cut() bool
	RemoteAddr() net.Addr
}

// Reader describes the caller that opens a stream, and its request.
type Reader struct {
	Identity   auth.Identity
	Place      state.Place
	Client     string // random id of the client process; empty if it reports nothing
	Address    string
	Connection Connection // nil if its end is not reported
	Step       uint64     // first step
	Steps      uint64     // number of requested steps; 0 for all
}

// Registry has the open streams of a server.
type Registry struct {
	log     *slog.Logger
	passing func(fault.Reason) bool // whether a client retries after an error of that reason
	reaper  *slowness
	silence func() <-chan time.Time // signals that a client that has a place and does not report is given up

	mu       sync.Mutex
	limits   Limits
	open     map[*Session]struct{}
	jobs     map[string]int   // open streams of each
	users    map[string]*user // by the name of the identity
	holders  map[state.Place]*Session
	memory   *budget
	recent   map[readerKey]*recent  // readers that left within the last minute
	expected map[state.Place]uint64 // the step at which each expected reader should return
}

// user is the usage of the streams of one identity.
type user struct {
	streams int
	jobs    map[string]int // number of open streams per job
}

// New returns a registry without streams. passing reports whether a client retries after an error with a reason.
func New(l Limits, passing func(fault.Reason) bool, log *slog.Logger) *Registry {
	r := &Registry{
		log: log, passing: passing, silence: func() <-chan time.Time { return time.After(duplicateWait) },
		open: map[*Session]struct{}{}, jobs: map[string]int{}, users: map[string]*user{}, holders: map[state.Place]*Session{},
		recent: map[readerKey]*recent{}, expected: map[state.Place]uint64{},
	}
	r.memory = newBudget(&r.mu, l.Bytes, streamBytes)
	r.reaper = &slowness{budget: r.memory, log: log, samples: logsample.New()}
	r.Limit(l)
	return r
}

// Limit changes the limits. Streams beyond a limit stay open until they end.
func (r *Registry) Limit(l Limits) {
	r.mu.Lock()
	r.limits = l
	r.mu.Unlock()
	r.memory.resize(l.Bytes)
	r.reaper.after.Store(int64(l.SlowReader))
}

// Watch ends streams whose readers take nothing, until ctx is done.
func (r *Registry) Watch(ctx context.Context) { r.reaper.watch(ctx) }

// Lost releases the memory of the streams of a connection that has ended.
func (r *Registry) Lost(c Connection) { r.memory.lost(c) }

// StreamsOfOne returns how many streams an identity may have open.
func (r *Registry) StreamsOfOne() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits.StreamsOfOne
}

// Streams returns the number of streams that have begun.
func (r *Registry) Streams() int { return len(r.begun(time.Now())) }

// Held returns the bytes of batches that are assembled or not taken yet.
func (r *Registry) Held() int64 { return r.memory.inUse() }

// Cuts returns how many connections were cut because a reader took nothing.
func (r *Registry) Cuts() uint64 { return r.reaper.cuts.Load() }

// Open opens a stream, which end ends. It returns a *fault.Error if a limit is reached, or if a client of another
// session reads as the same rank and reports. Begin begins the stream, Close closes it.
func (r *Registry) Open(ctx context.Context, x Reader, end func(error)) (*Session, error) {
	s := &Session{
		Reader: x, registry: r, began: time.Now(), end: end, next: x.Step,
		reported: make(chan struct{}), left: make(chan struct{}),
	}
	if err := r.enter(s); err != nil {
		return nil, err
	}
	if err := r.awaitPlace(ctx, s); err != nil {
		s.leave(time.Now())
		return nil, err
	}
	return s, nil
}

// enter counts a stream, or returns an error if a limit is reached.
func (r *Registry) enter(s *Session) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who, job := s.Identity, s.Place.Job
	u := r.users[who.Name]
	if u == nil {
		u = &user{jobs: map[string]int{}}
	}
	switch {
	case len(r.open) >= r.limits.Streams:
		return refusal.Limited("open streams (flight.max_streams)", r.limits.Streams)
	case u.streams >= r.limits.StreamsOfOne:
		what := fmt.Sprintf("open streams of identity %s (flight.max_streams_of_one)", who)
		return refusal.Limited(what, r.limits.StreamsOfOne)
	case r.jobs[job] == 0 && len(r.jobs) >= maxJobs:
		return refusal.Limited("jobs that read", maxJobs)
	case u.jobs[job] == 0 && len(u.jobs) >= maxJobsOfOne:
		return refusal.Limited(fmt.Sprintf("jobs of identity %s that read", who), maxJobsOfOne)
	}
	if s.memory, err = r.memory.open(who.Name, s.Address, s.Connection, s.end); err != nil {
		return err
	}
	r.open[s] = struct{}{}
	r.users[who.Name] = u
	u.streams++
	u.jobs[job]++
	r.jobs[job]++
	return nil
}

// exit reverses enter. The caller holds mu.
func (r *Registry) exit(s *Session) {
	delete(r.open, s)
	s.memory.close()
	u := r.users[s.Identity.Name]
	if u.streams--; u.streams == 0 {
		delete(r.users, s.Identity.Name)
	}
	tally.Decrement(u.jobs, s.Place.Job)
	tally.Decrement(r.jobs, s.Place.Job)
}

// Traffic describes the streams that have begun, by job, world and rank. It locks the registry for one stream at a
// time, because computing the quantiles of thousands would delay the sending of batches.
func (r *Registry) Traffic(now time.Time) []Traffic {
	sessions := r.begun(now)
	out := make([]Traffic, 0, len(sessions))
	for _, s := range sessions {
		out = append(out, s.traffic(now))
	}
	slices.SortFunc(out, func(a, b Traffic) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank),
			a.Since.Compare(b.Since))
	})
	return out
}

// begun returns the streams that have begun, and removes readers that have not returned in time.
func (r *Registry) begun(now time.Time) (sessions []*Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	for s := range r.open {
		if s.begun {
			sessions = append(sessions, s)
		}
	}
	return sessions
}
