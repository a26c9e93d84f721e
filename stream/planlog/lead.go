package planlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/conn"
)

const (
	// leadsBucket holds by run who leads it.
	leadsBucket = "loaderd_leads"
	// refreshLead is how often the holder of a lead refreshes its record.
	refreshLead = 500 * time.Millisecond
	// leadSilence is for how long a record has to stay unchanged before another daemon takes the lead. Each candidate measures it on its
	// own clock, from when it saw the record first.
	leadSilence = 2 * time.Second
	// leadDoubt is when the holder no longer trusts its lead: so long after the beginning of its last good refresh.
	leadDoubt = leadSilence * 8 / 10
	// refreshLimit bounds one attempt to refresh it: a server that is frozen takes the request along, and there is time for another one.
	refreshLimit = leadDoubt / 2
	// lookAtLead is how often a candidate looks.
	lookAtLead = 250 * time.Millisecond
	// tellLead is how often a candidate that cannot look says so.
	tellLead = 10 * time.Second
	// firstYield is when, after the lead is taken, its holder's own server hands over the streams that it leads: readers do not wait for the
	// plan any more then, and it shows which server died before. yieldAgain is when it looks again; the pause doubles whenever it had one to
	// hand over, so that runs that share streams do not pass them to and fro.
	firstYield = 3 * time.Second
	yieldAgain = 15 * time.Second
	yieldLimit = 10 * time.Second
	// holdLimit is how long nothing is appended to the plan while its stream is handed over: an append in between may get no answer.
	holdLimit = 500 * time.Millisecond
	// askHolder is how long a candidate waits for the holder of a lead to answer.
	askHolder = 500 * time.Millisecond
)

// Holder says who leads a run.
type Holder struct {
	ID      string    `json:"id"` // unique among all that ever were
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Flight  string    `json:"flight"` // where readers find it
}

// NewHolder describes a process that may lead a run.
func NewHolder(host string, pid int, flight string) Holder {
	return Holder{ID: nuid.Next(), Host: host, PID: pid, Started: time.Now().UTC(), Flight: flight}
}

func (h Holder) String() string {
	return fmt.Sprintf("process %d on %s, started %s, serving at %s", h.PID, h.Host, h.Started.Format(time.RFC3339), h.Flight)
}

// Name tells the process from all others, in a plan's records and among the daemons of a run.
func (h Holder) Name() string { return fmt.Sprintf("%s/%d/%s", h.Host, h.PID, h.ID) }

// LedError says that a live daemon leads the run.
type LedError struct {
	Run    string
	Holder Holder
}

func (e *LedError) Error() string {
	return fmt.Sprintf("run %s is led by %s: stop it first", e.Run, e.Holder)
}

// Leads is where the daemons of a run find out who leads it: a record that its holder refreshes, and that others take over by
// compare-and-set once it has stayed unchanged. It has no time to live, so that no two clocks are compared.
type Leads struct {
	store  *stream.Store
	kv     jetstream.KeyValue
	run    string
	holder Holder
	alive  *nats.Subscription // answers candidates that ask whether this daemon is there
}

var _ loader.Leads = (*Leads)(nil)

// OpenLeads makes a candidate for the lead of a run.
func OpenLeads(ctx context.Context, s *stream.Store, run string, holder Holder) (*Leads, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	l := &Leads{store: s, run: run, holder: holder}
	var err error
	if l.kv, err = s.EnsureKeyValue(ctx, leadsBucket, "which daemon leads each run"); err != nil {
		return nil, err
	}
	if l.alive, err = s.Conn().Subscribe(aliveSubject(holder), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		return nil, fmt.Errorf("answer other daemons: %w", err)
	}
	return l, nil
}

// aliveSubject is where a daemon answers that it is there.
func aliveSubject(h Holder) string { return stream.ServiceSubject + ".alive." + h.ID }

// askAlive asks a daemon whether it is there; nats.ErrNoResponders says that nobody listens.
func askAlive(ctx context.Context, s *stream.Store, h Holder) error {
	ctx, cancel := context.WithTimeout(ctx, askHolder)
	defer cancel()
	_, err := s.Conn().RequestWithContext(ctx, aliveSubject(h), nil)
	return err
}

// Close stops to answer other daemons.
func (l *Leads) Close() error {
	if err := l.alive.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		return fmt.Errorf("leave run %s: %w", l.run, err)
	}
	return nil
}

// Take implements loader.Leads.
func (l *Leads) Take(ctx context.Context) (loader.Lead, error) {
	freed, err := l.store.Conn().SubscribeSync(l.freedSubject())
	if err != nil {
		return nil, err
	}
	defer freed.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	var seen candidate
	var told time.Time
	for {
		lead, err := l.try(ctx, &seen)
		if err != nil && ctx.Err() == nil && time.Since(told) > tellLead {
			told = time.Now()
			l.store.Log().Warn("who leads the run cannot be found out, trying again", "run", l.run, "error", err)
		}
		if lead != nil || ctx.Err() != nil || err != nil && !conn.Transient(err) {
			if lead == nil && err == nil {
				err = ctx.Err()
			}
			return lead, err
		}
		look, cancel := context.WithTimeout(ctx, seen.next())
		_, err = freed.NextMsgWithContext(look)
		cancel()
		if err != nil && ctx.Err() == nil && look.Err() == nil { // the connection is closed
			return nil, fmt.Errorf("take the lead of run %s: %w", l.run, err)
		}
	}
}

// Seize takes the lead if no live daemon has it, else it returns *LedError.
func (l *Leads) Seize(ctx context.Context) (loader.Lead, error) {
	var seen candidate
	for {
		var lead loader.Lead
		err := l.store.Retry(ctx, "take the lead of run "+l.run, func(ctx context.Context) (err error) {
			lead, err = l.try(ctx, &seen)
			return err
		})
		if lead != nil || err != nil {
			return lead, err
		}
		if seen.refreshed || seen.answers {
			return nil, &LedError{l.run, seen.holder}
		}
		select {
		case <-time.After(lookAtLead):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// candidate is what one has seen of a lead that another daemon holds.
type candidate struct {
	holder    Holder
	revision  uint64
	since     time.Time // when the record was seen first
	refreshed bool      // it has changed since this candidate looked first
	answers   bool      // its holder has answered
	behind    time.Time // since when only older records are seen; zero while none is
}

// look reads the record as the leader of its stream has it; free says that there is none, or that it was given up.
func (l *Leads) look(ctx context.Context) (record []byte, revision uint64, free bool, err error) {
	stream, subject := keyAt(leadsBucket, l.run)
	m, err := l.store.GetLast(ctx, stream, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, true, nil
	}
	if err != nil {
		return nil, 0, false, err
	}
	return m.Data, m.Sequence, m.Header.Get("KV-Operation") != "", nil
}

// saw takes in a record. Only a newer one counts as refreshed: a server that is behind, or that leads no more, shows an old one, which would
// look like a change for as long as it takes turns with others. Where nothing else is seen for long, the bucket was made anew.
func (c *candidate) saw(revision uint64, holder Holder, now time.Time) {
	switch {
	case revision == c.revision:
		c.behind = time.Time{}
	case revision < c.revision && c.behind.IsZero():
		c.behind = now
	case revision > c.revision, now.Sub(c.behind) > 2*leadSilence:
		*c = candidate{holder: holder, revision: revision, since: now, refreshed: c.revision != 0}
	}
}

// next is when to look again: at the latest when the record, if it stays as it is, has been silent for long enough.
func (c *candidate) next() time.Duration {
	if left := leadSilence - time.Since(c.since); left > 0 && left < lookAtLead {
		return left
	}
	return lookAtLead
}

// try makes one attempt; it returns nil without an error while another daemon leads.
func (l *Leads) try(ctx context.Context, seen *candidate) (loader.Lead, error) {
	began := time.Now()
	attempt, cancel := context.WithTimeout(ctx, leadSilence)
	defer cancel()
	record, revision, free, err := l.look(attempt)
	if err != nil {
		return nil, err
	}
	if free && revision >= seen.revision {
		revision, err := l.kv.Create(attempt, l.run, l.record())
		return l.taken(revision, began, err)
	}
	var holder Holder
	if err := json.Unmarshal(record, &holder); err != nil && revision != seen.revision { // of no daemon, which will not refresh it
		l.store.Log().Warn("the record of who leads a run cannot be read", "run", l.run, "bucket", leadsBucket, "error", err)
	}
	seen.saw(revision, holder, began)
	if time.Since(seen.since) < leadSilence && l.there(ctx, seen) {
		return nil, nil
	}
	revision, err = l.kv.Update(attempt, l.run, l.record(), seen.revision)
	return l.taken(revision, began, err)
}

// there reports whether the holder of a lead may be there. Behind one server nobody can be whose subscription it does not know; in a
// cluster the way to it may be cut, so that only the silence of its record counts.
func (l *Leads) there(ctx context.Context, seen *candidate) bool {
	if l.store.Clustered() {
		return true
	}
	if seen.holder.ID == "" {
		return false
	}
	err := askAlive(ctx, l.store, seen.holder)
	seen.answers = err == nil
	return !errors.Is(err, nats.ErrNoResponders)
}

func (l *Leads) record() []byte {
	b, err := json.Marshal(l.holder)
	if err != nil {
		panic(fmt.Sprintf("planlog: marshal a holder: %v", err)) // strings, a number and a time always encode
	}
	return b
}

func (l *Leads) taken(revision uint64, began time.Time, err error) (loader.Lead, error) {
	switch {
	case err == nil:
		x := &Lead{leads: l, revision: revision, good: began, over: make(chan struct{}), sure: make(chan struct{}, 1)}
		held, stop := context.WithCancel(context.Background())
		x.stop = stop
		x.running.Go(func() { x.refresh(held) })
		x.running.Go(func() { x.yield(held) })
		return x, nil
	case conn.WrongLast(err), errors.Is(err, jetstream.ErrKeyExists): // another candidate was faster, or what was read is old
		return nil, nil
	}
	return nil, err
}

// freedSubject is where a holder says that it has given the lead up.
func (l *Leads) freedSubject() string { return stream.ServiceSubject + ".freed." + l.run }

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
		var holder Holder
		if err := json.Unmarshal(record, &holder); err != nil || holder.ID != l.holder.ID {
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
	first, failed := x.leads.store.Yield(ctx, plan)
	ended()
	cancel()
	ctx, cancel = context.WithTimeout(held, yieldLimit)
	defer cancel()
	rest, err := x.leads.store.Yield(ctx, append([]string{plan}, others...)...)
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
