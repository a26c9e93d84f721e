package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader/fault"
	"loaderd/stream/conn"
)

const (
	// renewInterval is how often the holder of a lease renews its record.
	renewInterval = 500 * time.Millisecond
	// leaseDuration is how long after the start of the last successful renewal the holder trusts its lease.
	leaseDuration = timeout * 8 / 10
	// renewTimeout bounds one attempt to renew. A request to a server that is frozen is lost, and time remains for
	// another attempt.
	renewTimeout = leaseDuration / 2
	// firstHandOverDelay is when, after the lease is acquired, its holder's own server first hands over the streams that
	// it leads. By then readers no longer wait for the plan, and the server that failed before is known. handOverInterval
	// is the time to the next check. It doubles whenever a stream had to be handed over, so that runs that share streams
	// do not move them back and forth.
	firstHandOverDelay = 3 * time.Second
	handOverInterval   = 15 * time.Second
	handOverTimeout    = 10 * time.Second
	// pauseTimeout bounds how long appends pause while the first stream is handed over. An append during the handover
	// may get no response.
	pauseTimeout = 500 * time.Millisecond
)

// Lease is a lease that this process holds.
type Lease struct {
	elector    *Elector
	goroutines sync.WaitGroup
	stop       context.CancelFunc
	lost       chan struct{}
	verified   chan struct{} // has a value when a renewal has succeeded

	mu       sync.Mutex
	revision uint64
	renewed  time.Time     // start of the last successful renewal
	paused   chan struct{} // closed when the first stream has been handed over; otherwise nil
}

// renew renews the record until the lease is released or another daemon holds it.
func (x *Lease) renew(held context.Context) {
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	for {
		select {
		case <-held.Done():
			return
		case <-tick.C:
		}
		if x.renewOnce() {
			close(x.lost)
			return
		}
	}
}

// renewOnce makes one attempt, and reports whether the record of another daemon has been read.
func (x *Lease) renewOnce() (lost bool) {
	l := x.elector
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	revision, err := l.kv.Update(ctx, l.name, l.encodeRecord(), x.revision)
	if conn.IsWrongLastSequence(err) { // by another daemon, or by an earlier renewal whose response was lost
		record, revision, _, err := l.readRecord(ctx)
		if err != nil || revision <= x.revision {
			return false
		}
		if leader, err := decodeLeaderInfo(record); err != nil || leader.ID != l.self.ID {
			return true
		}
		x.mu.Lock()
		x.revision = revision
		x.mu.Unlock()
		return false
	}
	if err != nil {
		return false
	}
	x.mu.Lock()
	x.revision, x.renewed = revision, began
	x.mu.Unlock()
	select {
	case x.verified <- struct{}{}:
	default:
	}
	return false
}

// handOverStreams moves the leaders of the streams that a takeover needs away from this process's own server.
// Otherwise the streams would have no leader if the server fails together with this process.
func (x *Lease) handOverStreams(held context.Context) {
	s, run := x.elector.store, x.elector.name
	if !s.Config().Clustered() {
		return
	}
	interval := handOverInterval
	for wait := firstHandOverDelay; ; wait = interval {
		select {
		case <-time.After(wait):
		case <-x.lost:
			return
		case <-held.Done():
			return
		}
		moved, err := x.handOverOnce(held)
		if err != nil {
			s.Log().Debug("cannot move the leadership of streams away from the server of the leader", "run", run, "error", err)
		}
		if len(moved) > 0 {
			s.Log().Info("transferred leadership of streams of the run to other servers", "run", run, "streams", moved)
			interval = min(2*interval, time.Hour)
		}
	}
}

// handOverOnce hands over the first stream, while appends to it pause, and then the other streams. It returns the
// names of the streams that it has handed over.
func (x *Lease) handOverOnce(held context.Context) ([]string, error) {
	streams := x.elector.handOver
	ctx, cancel := context.WithTimeout(held, pauseTimeout)
	resume := x.pause()
	first, failed := x.elector.docs.TransferLeadership(ctx, streams[0])
	resume()
	cancel()
	ctx, cancel = context.WithTimeout(held, handOverTimeout)
	defer cancel()
	rest, err := x.elector.docs.TransferLeadership(ctx, streams...)
	return append(first, rest...), errors.Join(failed, err)
}

// pause makes Verify wait until resume is called.
func (x *Lease) pause() (resume func()) {
	paused := make(chan struct{})
	x.mu.Lock()
	x.paused = paused
	x.mu.Unlock()
	return func() {
		x.mu.Lock()
		x.paused = nil
		x.mu.Unlock()
		close(paused)
	}
}

// Verify implements backend.Lease.
func (x *Lease) Verify(ctx context.Context) error {
	for {
		x.mu.Lock()
		left, paused := leaseDuration-time.Since(x.renewed), x.paused
		x.mu.Unlock()
		select {
		case <-x.lost:
			return fault.ErrLeadershipLost
		default:
		}
		if left > 0 && paused == nil {
			return nil
		}
		select {
		case <-paused:
		case <-x.verified:
		case <-x.lost:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Lost implements backend.Lease.
func (x *Lease) Lost() <-chan struct{} { return x.lost }

// Close implements backend.Lease.
func (x *Lease) Close() error {
	x.stop()
	x.goroutines.Wait()
	select {
	case <-x.lost:
		return nil
	default:
	}
	l := x.elector
	if l.store.Conn().IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseDuration)
	defer cancel()
	if err := l.kv.Delete(ctx, l.name, jetstream.LastRevision(x.revision)); err != nil {
		l.store.Log().Warn("cannot release the lease; another daemon has to wait for its timeout", "run", l.name,
			"error", err)
		return nil
	}
	_ = l.store.Conn().Publish(ReleasedSubject(l.name), nil) // a candidate that misses it polls
	return nil
}
