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
	// maxJobs bounds the jobs as which streams read at the same time, maxJobsPerIdentity those of one identity. Daemons
	// send each other the ranks of each job in their heartbeats.
	maxJobs            = 256
	maxJobsPerIdentity = 64
	// maxExpectedReturns bounds the number of expected readers that are remembered, because some never return.
	maxExpectedReturns = 1 << 16
)

// Limits bound the open streams.
type Limits struct {
	Streams            int           // all open streams
	StreamsPerIdentity int           // open streams of one identity
	Bytes              int64         // bytes of record batches that are assembled or not taken yet, over all streams
	SlowReader         time.Duration // how long a reader may take nothing while data is available
}

// Connection is the connection of a stream. Its values are comparable, for example pointers.
type Connection interface {
	// Closed reports whether the connection has ended.
	Closed() bool
	// Cut ends the connection immediately. It reports whether this is the first call.
	Cut() bool
	RemoteAddr() net.Addr
}

// ReaderInfo describes the caller that opens a stream, and its request.
type ReaderInfo struct {
	Identity   auth.Identity
	RankID     state.RankID
	Client     string // random id of the client process; empty if it reports nothing
	Address    string
	Connection Connection // nil if its end is not reported
	Step       uint64     // first step
	Steps      uint64     // number of requested steps; 0 for all
}

// Registry has the open streams of a server.
type Registry struct {
	log            *slog.Logger
	isRetryable    func(fault.Reason) bool // whether a client retries after an error of that reason
	reaper         *slowReaderReaper
	duplicateTimer func() <-chan time.Time // signals that a client that has a place and does not report is given up

	mu              sync.Mutex
	limits          Limits
	sessions        map[*Session]struct{}
	jobs            map[string]int            // open streams of each
	identities      map[string]*identityUsage // by the name of the identity
	rankHolders     map[state.RankID]*Session
	memory          *budget
	recentReaders   map[readerKey]*readerStats // readers that left within the last minute
	expectedReturns map[state.RankID]uint64    // the step at which each expected reader should return
}

// identityUsage is the usage of the streams of one identity.
type identityUsage struct {
	streams int
	jobs    map[string]int // number of open streams per job
}

// New returns a registry without streams. passing reports whether a client retries after an error with a reason.
func New(l Limits, passing func(fault.Reason) bool, log *slog.Logger) *Registry {
	r := &Registry{
		log: log, isRetryable: passing, duplicateTimer: func() <-chan time.Time { return time.After(duplicateTimeout) },
		sessions: map[*Session]struct{}{}, jobs: map[string]int{}, identities: map[string]*identityUsage{},
		rankHolders:   map[state.RankID]*Session{},
		recentReaders: map[readerKey]*readerStats{}, expectedReturns: map[state.RankID]uint64{},
	}
	r.memory = newBudget(&r.mu, l.Bytes, streamBytes)
	r.reaper = &slowReaderReaper{budget: r.memory, log: log, samples: logsample.New()}
	r.SetLimits(l)
	return r
}

// SetLimits changes the limits. Streams beyond a limit stay open until they end.
func (r *Registry) SetLimits(l Limits) {
	r.mu.Lock()
	r.limits = l
	r.mu.Unlock()
	r.memory.resize(l.Bytes)
	r.reaper.timeout.Store(int64(l.SlowReader))
}

// RunReaper ends streams whose readers take nothing, until ctx is done.
func (r *Registry) RunReaper(ctx context.Context) { r.reaper.run(ctx) }

// ReleaseConnection releases the memory of the streams of a connection that has ended.
func (r *Registry) ReleaseConnection(c Connection) { r.memory.releaseConnection(c) }

// MaxStreamsPerIdentity returns how many streams an identity may have open.
func (r *Registry) MaxStreamsPerIdentity() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits.StreamsPerIdentity
}

// StreamCount returns the number of streams that have begun.
func (r *Registry) StreamCount() int { return len(r.startedSessions(time.Now())) }

// HeldBytes returns the bytes of batches that are assembled or not taken yet.
func (r *Registry) HeldBytes() int64 { return r.memory.heldBytes() }

// CutConnections returns how many connections were cut because a reader took nothing.
func (r *Registry) CutConnections() uint64 { return r.reaper.cutConnections.Load() }

// Open opens a stream, which end ends. It returns a *fault.Error if a limit is reached, or if a client of another
// session reads as the same rank and reports. Begin begins the stream, Close closes it.
func (r *Registry) Open(ctx context.Context, x ReaderInfo, end func(error)) (*Session, error) {
	s := &Session{
		ReaderInfo: x, registry: r, startedAt: time.Now(), endStream: end, nextStep: x.Step,
		reported: make(chan struct{}), done: make(chan struct{}),
	}
	if err := r.addSession(s); err != nil {
		return nil, err
	}
	if err := r.awaitRank(ctx, s); err != nil {
		s.deregister(time.Now())
		return nil, err
	}
	return s, nil
}

// addSession counts a stream, or returns an error if a limit is reached.
func (r *Registry) addSession(s *Session) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who, job := s.Identity, s.RankID.Job
	u := r.identities[who.Name]
	if u == nil {
		u = &identityUsage{jobs: map[string]int{}}
	}
	switch {
	case len(r.sessions) >= r.limits.Streams:
		return refusal.Limited("open streams (flight.max_streams)", r.limits.Streams)
	case u.streams >= r.limits.StreamsPerIdentity:
		what := fmt.Sprintf("open streams of identity %s (flight.max_streams_per_identity)", who)
		return refusal.Limited(what, r.limits.StreamsPerIdentity)
	case r.jobs[job] == 0 && len(r.jobs) >= maxJobs:
		return refusal.Limited("jobs that read", maxJobs)
	case u.jobs[job] == 0 && len(u.jobs) >= maxJobsPerIdentity:
		return refusal.Limited(fmt.Sprintf("reading jobs of identity %s", who), maxJobsPerIdentity)
	}
	if s.memory, err = r.memory.openAccount(who.Name, s.Address, s.Connection, s.endStream); err != nil {
		return err
	}
	r.sessions[s] = struct{}{}
	r.identities[who.Name] = u
	u.streams++
	u.jobs[job]++
	r.jobs[job]++
	return nil
}

// removeSession reverses enter. The caller holds mu.
func (r *Registry) removeSession(s *Session) {
	delete(r.sessions, s)
	s.memory.close()
	u := r.identities[s.Identity.Name]
	if u.streams--; u.streams == 0 {
		delete(r.identities, s.Identity.Name)
	}
	tally.Decrement(u.jobs, s.RankID.Job)
	tally.Decrement(r.jobs, s.RankID.Job)
}

// StreamStats describes the streams that have begun, by job, world and rank. It locks the registry for one stream at a
// time, because computing the quantiles of thousands would delay the sending of batches.
func (r *Registry) StreamStats(now time.Time) []StreamStats {
	sessions := r.startedSessions(now)
	out := make([]StreamStats, 0, len(sessions))
	for _, s := range sessions {
		out = append(out, s.streamStats(now))
	}
	slices.SortFunc(out, func(a, b StreamStats) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank),
			a.Since.Compare(b.Since))
	})
	return out
}

// startedSessions returns the streams that have begun, and removes readers that have not returned in time.
func (r *Registry) startedSessions(now time.Time) (sessions []*Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireStats(now)
	for s := range r.sessions {
		if s.started {
			sessions = append(sessions, s)
		}
	}
	return sessions
}
