// Package lease elects the daemon that leads a run, by a record in a key-value bucket that the leader renews.
//
// The lease is an optimisation: it avoids duplicate work. Terms and conditional appends protect the plan.
package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/loader/backend"
	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// Bucket is the key-value bucket with the leader of each run.
const Bucket = "loaderd_leads"

const (
	// timeout is how long a record must stay unchanged before another daemon acquires the lease. Each candidate measures
	// it on its own clock, from when it first read the record.
	timeout = 2 * time.Second
	// pollInterval is how often a candidate reads the record.
	pollInterval = 250 * time.Millisecond
	// logInterval is the interval of log messages of a candidate that cannot read the record.
	logInterval = 10 * time.Second
	// pingTimeout is how long a candidate waits for the leader to respond.
	pingTimeout = 500 * time.Millisecond
)

// LeaderInfo describes the leader of a run.
type LeaderInfo struct {
	ID      string    `json:"id"` // unique among all processes
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Flight  string    `json:"flight"` // address for readers; empty for a process that serves none
}

// NewLeaderInfo describes a process that may lead a run.
func NewLeaderInfo(host string, pid int) LeaderInfo {
	return LeaderInfo{ID: nuid.Next(), Host: host, PID: pid, Started: time.Now().UTC()}
}

func (h LeaderInfo) String() string {
	s := fmt.Sprintf("process %d on %s, started %s", h.PID, h.Host, h.Started.Format(time.RFC3339))
	if h.Flight != "" {
		s += ", serving at " + h.Flight
	}
	return s
}

// maxText bounds the bytes of an id, a host and an address.
const maxText = 255

// decodeLeaderInfo reads the record of a lease. It refuses a record that no daemon writes, because it is printed.
func decodeLeaderInfo(b []byte) (h LeaderInfo, err error) {
	if err := json.Unmarshal(b, &h); err != nil {
		return LeaderInfo{}, err
	}
	for _, s := range []string{h.ID, h.Host, h.Flight} {
		if len(s) > maxText || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return LeaderInfo{}, fmt.Errorf("%q is no name or address", s)
		}
	}
	if h.ID == "" || strings.ContainsAny(h.ID, ".*>") {
		return LeaderInfo{}, fmt.Errorf("%q is no id of a daemon", h.ID)
	}
	return h, nil
}

// Name identifies the process in a plan's records and among the daemons of a run.
func (h LeaderInfo) Name() string { return fmt.Sprintf("%s/%d/%s", h.Host, h.PID, h.ID) }

// HeldError is the error of TryAcquire while a live daemon leads the run.
type HeldError struct {
	Run    string
	Leader LeaderInfo
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("run %s is led by %s: stop it first", e.Run, e.Leader)
}

// Elector elects one of the daemons of a run. The lease is a record that its holder renews. Another daemon replaces
// the record by compare-and-set once it has stayed unchanged. The record has no TTL, so no two clocks are compared.
type Elector struct {
	store    *stream.Store // of the leases
	docs     *stream.Store // of the documents
	kv       jetstream.KeyValue
	name     string
	self     LeaderInfo
	handOver []string
	alive    *nats.Subscription // responds to candidates that check whether this daemon is running
}

var _ backend.Elector = (*Elector)(nil)

// NewElector makes this process a candidate for a lease: the name of a run, or of other work that one process at a
// time does. handOver are streams whose leader is moved away from the server of the process that holds the lease, so
// that both are not lost together. The holder appends to the first of them, and must call Verify before each append.
func NewElector(ctx context.Context, s *stream.Store, name string, self LeaderInfo,
	handOver ...string) (*Elector, error) {
	l := &Elector{store: s.Own(), docs: s, name: name, self: self, handOver: handOver}
	var err error
	if l.kv, err = l.store.EnsureKeyValue(ctx, Bucket, "which daemon leads each run"); err != nil {
		return nil, err
	}
	if l.alive, err = l.store.Conn().Subscribe(AliveSubject(self.ID), func(m *nats.Msg) {
		_ = m.Respond(nil)
	}); err != nil {
		return nil, fmt.Errorf("answer other daemons: %w", err)
	}
	return l, nil
}

// SetFlightAddress sets the address for readers of this daemon. It must be called before Acquire.
func (l *Elector) SetFlightAddress(flight string) { l.self.Flight = flight }

// AliveSubject is the subject on which the daemon with an id responds that it is running.
func AliveSubject(id string) string { return stream.ServiceSubject + ".alive." + id }

// ping checks whether a daemon is running. The error is nats.ErrNoResponders if no process subscribes.
func ping(ctx context.Context, s *stream.Store, leader LeaderInfo) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := s.Own().Conn().RequestWithContext(ctx, AliveSubject(leader.ID), nil)
	return err
}

// Close stops responding to other daemons.
func (l *Elector) Close() error {
	if err := l.alive.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) &&
		!errors.Is(err, nats.ErrBadSubscription) {
		return fmt.Errorf("close the elector of %s: %w", l.name, err)
	}
	return nil
}

// Acquire implements backend.Elector.
func (l *Elector) Acquire(ctx context.Context) (backend.Lease, error) {
	freed, err := l.store.Conn().SubscribeSync(ReleasedSubject(l.name))
	if err != nil {
		return nil, err
	}
	defer freed.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	var seen candidate
	var logged time.Time
	for {
		lease, err := l.tryOnce(ctx, &seen)
		if err != nil && ctx.Err() == nil && time.Since(logged) > logInterval {
			logged = time.Now()
			l.store.Log().Warn("cannot read the leader of the run, trying again", "run", l.name, "error", err)
		}
		if lease != nil || ctx.Err() != nil || err != nil && !conn.IsTransient(err) {
			if lease == nil && err == nil {
				err = ctx.Err()
			}
			return lease, err
		}
		poll, cancel := context.WithTimeout(ctx, seen.pollDelay())
		_, err = freed.NextMsgWithContext(poll)
		cancel()
		if err != nil && ctx.Err() == nil && poll.Err() == nil { // the connection is closed
			return nil, fmt.Errorf("acquire the lease of %s: %w", l.name, err)
		}
	}
}

// TryAcquire acquires the lease if no live daemon holds it; otherwise it returns *HeldError.
func (l *Elector) TryAcquire(ctx context.Context) (backend.Lease, error) {
	var seen candidate
	for {
		var lease backend.Lease
		err := l.store.Retry(ctx, "acquire the lease of "+l.name, func(ctx context.Context) (err error) {
			lease, err = l.tryOnce(ctx, &seen)
			return err
		})
		if lease != nil || err != nil {
			return lease, err
		}
		if seen.refreshed { // a response to a ping is no proof, because any process can send it
			return nil, &HeldError{l.name, seen.leader}
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// candidate is the state that a candidate has read of a lease that another daemon holds.
type candidate struct {
	leader    LeaderInfo
	revision  uint64
	since     time.Time // when the record was first read
	refreshed bool      // it has changed since it was first read
	behind    time.Time // since when only older records are read; otherwise zero
}

// readRecord reads the record from the leader of its stream. free is true if no record exists or the lease was
// released.
func (l *Elector) readRecord(ctx context.Context) (record []byte, revision uint64, free bool, err error) {
	stream, subject := casvalue.KeyAddress(Bucket, l.name)
	m, err := messages.GetLast(ctx, l.store.Client, stream, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, true, nil
	}
	if err != nil {
		return nil, 0, false, err
	}
	return m.Data, m.Sequence, m.Header.Get("KV-Operation") != "", nil
}

// observe processes a record that was read. Only a newer record counts as refreshed: a server that lags, or that no
// longer leads the stream, returns an old record, which would look like a change while servers alternate. If only
// older records are read for a long time, the bucket was created again.
func (c *candidate) observe(revision uint64, leader LeaderInfo, now time.Time) {
	switch {
	case revision == c.revision:
		c.behind = time.Time{}
	case revision < c.revision && c.behind.IsZero():
		c.behind = now
	case revision > c.revision, now.Sub(c.behind) > 2*timeout:
		*c = candidate{leader: leader, revision: revision, since: now, refreshed: c.revision != 0}
	}
}

// pollDelay returns the time until the record should be read again: at most until it has stayed unchanged for the
// timeout.
func (c *candidate) pollDelay() time.Duration {
	if left := timeout - time.Since(c.since); left > 0 && left < pollInterval {
		return left
	}
	return pollInterval
}

// tryOnce makes one attempt; it returns nil without an error while another daemon leads.
func (l *Elector) tryOnce(ctx context.Context, seen *candidate) (backend.Lease, error) {
	began := time.Now()
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	record, revision, free, err := l.readRecord(attempt)
	if err != nil {
		return nil, err
	}
	if free && revision >= seen.revision {
		revision, err := l.kv.Create(attempt, l.name, l.encodeRecord())
		return l.newLease(revision, began, err)
	}
	leader, err := decodeLeaderInfo(record)
	if err != nil && revision != seen.revision { // no daemon wrote it, and none will refresh it
		l.store.Log().Warn("invalid record of the leader of a run", "run", l.name, "bucket", Bucket, "error", err)
	}
	seen.observe(revision, leader, began)
	if time.Since(seen.since) < timeout && l.mayBeRunning(ctx, seen) {
		return nil, nil
	}
	revision, err = l.kv.Update(attempt, l.name, l.encodeRecord(), seen.revision)
	return l.newLease(revision, began, err)
}

// mayBeRunning reports whether the process that holds a lease may be running. A single server has the subscriptions of
// all processes. In a cluster the route to a process may be cut, so only the timeout of its record counts.
func (l *Elector) mayBeRunning(ctx context.Context, seen *candidate) bool {
	if l.store.Clustered() {
		return true
	}
	if seen.leader.ID == "" {
		return false
	}
	return !errors.Is(ping(ctx, l.store, seen.leader), nats.ErrNoResponders)
}

func (l *Elector) encodeRecord() []byte {
	b, err := json.Marshal(l.self)
	if err != nil {
		panic(fmt.Sprintf("lease: marshal leader: %v", err)) // strings, a number and a time always encode
	}
	return b
}

func (l *Elector) newLease(revision uint64, began time.Time, err error) (backend.Lease, error) {
	switch {
	case err == nil:
		x := &Lease{elector: l, revision: revision, renewed: began, lost: make(chan struct{}),
			verified: make(chan struct{}, 1)}
		held, stop := context.WithCancel(context.Background())
		x.stop = stop
		x.goroutines.Go(func() { x.renew(held) })
		if len(l.handOver) > 0 {
			x.goroutines.Go(func() { x.handOverStreams(held) })
		}
		return x, nil
	case conn.IsWrongLastSequence(err), errors.Is(err, jetstream.ErrKeyExists):
		// another candidate was faster, or the record was outdated
		return nil, nil
	}
	return nil, err
}

// ReleasedSubject is the subject on which the release of a lease is announced.
func ReleasedSubject(name string) string { return stream.ServiceSubject + ".freed." + name }

// ReadLeader returns the leader of a run according to its record, and whether that process responds. found is false if
// no process holds the lease.
func ReadLeader(ctx context.Context, s *stream.Store, run string) (leader LeaderInfo, answers, found bool, err error) {
	record, err := casvalue.ReadKey(ctx, s, Bucket, run)
	if err != nil || len(record) == 0 {
		return leader, false, false, err
	}
	if leader, err = decodeLeaderInfo(record); err != nil { // no daemon wrote it
		s.Log().Warn("invalid record of the leader of a run", "run", run, "bucket", Bucket, "error", err)
		return LeaderInfo{Host: "unknown"}, false, true, nil
	}
	return leader, ping(ctx, s, leader) == nil, true, ctx.Err()
}
