package planlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
	"loaderd/stream/conn"
)

const (
	// refreshLead is how often the holder of a lead refreshes its record.
	refreshLead = 500 * time.Millisecond
	// leadDoubt is when the holder no longer trusts its lead: so long after the beginning of its last good refresh.
	leadDoubt = leadSilence * 8 / 10
	// refreshLimit bounds one attempt to refresh it: a server that is frozen takes the request along, and there is time for another one.
	refreshLimit = leadDoubt / 2
	// firstYield is when, after the lead is taken, its holder's own server hands over the streams that it leads: readers do not wait for the
	// plan any more then, and it shows which server died before. yieldAgain is when it looks again; the pause doubles whenever it had one to
	// hand over, so that runs that share streams do not pass them to and fro.
	firstYield = 3 * time.Second
	yieldAgain = 15 * time.Second
	yieldLimit = 10 * time.Second
	// holdLimit is how long nothing is appended to the plan while its stream is handed over: an append in between may get no answer.
	holdLimit = 500 * time.Millisecond
)

// Lead is the lead of a run, held by this process.
type Lead struct {
	leads   *Leads
	running sync.WaitGroup
	stop    context.CancelFunc
	over    chan struct{}
	sure    chan struct{} // has a value when a refresh has succeeded

	mu       sync.Mutex
	revision uint64
	good     time.Time     // beginning of the last good refresh
	holds    chan struct{} // closed when the plan's stream has been handed over; nil while it is not
}

// refresh keeps the record fresh until the lead is given up or another daemon has it.
func (x *Lead) refresh(held context.Context) {
	tick := time.NewTicker(refreshLead)
	defer tick.Stop()
	for {
		select {
		case <-held.Done():
			return
		case <-tick.C:
		}
		if x.refreshOnce() {
			close(x.over)
			return
		}
	}
}

// refreshOnce makes one attempt, and reports whether another daemon holds the lead: whether its record has been read.
func (x *Lead) refreshOnce() (deposed bool) {
	l := x.leads
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), refreshLimit)
	defer cancel()
	revision, err := l.kv.Update(ctx, l.run, l.record(), x.revision)
	if conn.WrongLast(err) { // by another daemon, or by an earlier refresh whose answer was lost
		record, revision, _, err := l.look(ctx)
		if err != nil || revision <= x.revision {
			return false
		}
		if holder, err := decodeHolder(record); err != nil || holder.ID != l.holder.ID {
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
	x.revision, x.good = revision, began
	x.mu.Unlock()
	select {
	case x.sure <- struct{}{}:
	default:
	}
	return false
}

// yield keeps the streams that a takeover needs away from this process's own server, with which they would lose their leader when it dies.
func (x *Lead) yield(held context.Context) {
	s, run := x.leads.store, x.leads.run
	if !s.Config().Clustered() {
		return
	}
	plan := s.Config().PlanStream(run).Name
	others := []string{"OBJ_" + checkpointsPrefix + run, s.Config().Name}
	for _, bucket := range []string{leadsBucket, floorsBucket, manifestsBucket} {
		name, _ := keyAt(bucket, run)
		others = append(others, name)
	}
	again := yieldAgain
	for wait := firstYield; ; wait = again {
		select {
		case <-time.After(wait):
		case <-x.over:
			return
		case <-held.Done():
			return
		}
		moved, err := x.handOver(held, plan, others)
		if err != nil {
			s.Log().Debug("streams may be led by the server of the daemon that leads the run", "run", run, "error", err)
		}
		if len(moved) > 0 {
			s.Log().Info("other servers lead streams of the run now: this daemon's may end with it", "run", run, "streams", moved)
			again = min(2*again, time.Hour)
		}
	}
}

// handOver hands over the plan's stream, to which nothing is appended meanwhile, and others, where it can. It returns those that it has.
func (x *Lead) handOver(held context.Context, plan string, others []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(held, holdLimit)
	ended := x.hold()
	first, failed := x.leads.docs.Yield(ctx, plan)
	ended()
	cancel()
	ctx, cancel = context.WithTimeout(held, yieldLimit)
	defer cancel()
	rest, err := x.leads.docs.Yield(ctx, append([]string{plan}, others...)...)
	return append(first, rest...), errors.Join(failed, err)
}

// hold has Sure wait until ended is called.
func (x *Lead) hold() (ended func()) {
	holds := make(chan struct{})
	x.mu.Lock()
	x.holds = holds
	x.mu.Unlock()
	return func() {
		x.mu.Lock()
		x.holds = nil
		x.mu.Unlock()
		close(holds)
	}
}

// Sure implements loader.Lead.
func (x *Lead) Sure(ctx context.Context) error {
	for {
		x.mu.Lock()
		left, holds := leadDoubt-time.Since(x.good), x.holds
		x.mu.Unlock()
		select {
		case <-x.over:
			return loader.ErrDeposed
		default:
		}
		if left > 0 && holds == nil {
			return nil
		}
		select {
		case <-holds:
		case <-x.sure:
		case <-x.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Over implements loader.Lead.
func (x *Lead) Over() <-chan struct{} { return x.over }

// Close implements loader.Lead.
func (x *Lead) Close() error {
	x.stop()
	x.running.Wait()
	select {
	case <-x.over:
		return nil
	default:
	}
	l := x.leads
	if l.store.Conn().IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leadDoubt)
	defer cancel()
	if err := l.kv.Delete(ctx, l.run, jetstream.LastRevision(x.revision)); err != nil {
		l.store.Log().Warn("the lead was not given up: another daemon waits until it counts as silent", "run", l.run, "error", err)
		return nil
	}
	_ = l.store.Conn().Publish(l.freedSubject(), nil) // who misses it looks by itself
	return nil
}
