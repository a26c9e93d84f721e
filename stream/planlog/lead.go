package planlog

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

	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/conn"
)

const (
	// leadsBucket holds by run who leads it.
	leadsBucket = "loaderd_leads"
	// leadSilence is for how long a record has to stay unchanged before another daemon takes the lead. Each candidate measures it on its
	// own clock, from when it saw the record first.
	leadSilence = 2 * time.Second
	// lookAtLead is how often a candidate looks.
	lookAtLead = 250 * time.Millisecond
	// tellLead is how often a candidate that cannot look says so.
	tellLead = 10 * time.Second
	// askHolder is how long a candidate waits for the holder of a lead to answer.
	askHolder = 500 * time.Millisecond
)

// Holder says who leads a run.
type Holder struct {
	ID      string    `json:"id"` // unique among all that ever were
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Flight  string    `json:"flight"` // where readers find it; empty of a process that serves none
}

// NewHolder describes a process that may lead a run.
func NewHolder(host string, pid int) Holder {
	return Holder{ID: nuid.Next(), Host: host, PID: pid, Started: time.Now().UTC()}
}

func (h Holder) String() string {
	s := fmt.Sprintf("process %d on %s, started %s", h.PID, h.Host, h.Started.Format(time.RFC3339))
	if h.Flight != "" {
		s += ", serving at " + h.Flight
	}
	return s
}

// maxHolder bounds the bytes of what a holder says of itself.
const maxHolder = 255

// decodeHolder reads the record of a lead. It refuses one that no daemon writes: what it says is shown to people.
func decodeHolder(b []byte) (h Holder, err error) {
	if err := json.Unmarshal(b, &h); err != nil {
		return Holder{}, err
	}
	for _, s := range []string{h.ID, h.Host, h.Flight} {
		if len(s) > maxHolder || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return Holder{}, fmt.Errorf("%q is no name or address", s)
		}
	}
	if h.ID == "" || strings.ContainsAny(h.ID, ".*>") {
		return Holder{}, fmt.Errorf("%q is no id of a daemon", h.ID)
	}
	return h, nil
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
	store  *stream.Store // the leads'
	docs   *stream.Store // the documents'
	kv     jetstream.KeyValue
	run    string
	holder Holder
	plans  bool               // who leads plans, and its server hands streams over
	alive  *nats.Subscription // answers candidates that ask whether this daemon is there
}

var _ loader.Leads = (*Leads)(nil)

// OpenLeads makes a candidate for the lead of a run.
func OpenLeads(ctx context.Context, s *stream.Store, run string, holder Holder) (*Leads, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	l, err := openLeads(ctx, s, run, holder)
	if err == nil {
		l.plans = true
	}
	return l, err
}

// openLeads opens the lead of a run, or of something else that one process at a time does.
func openLeads(ctx context.Context, s *stream.Store, run string, holder Holder) (*Leads, error) {
	l := &Leads{store: s.Own(), docs: s, run: run, holder: holder}
	var err error
	if l.kv, err = l.store.EnsureKeyValue(ctx, leadsBucket, "which daemon leads each run"); err != nil {
		return nil, err
	}
	if l.alive, err = l.store.Conn().Subscribe(aliveSubject(holder), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		return nil, fmt.Errorf("answer other daemons: %w", err)
	}
	return l, nil
}

// ServesAt sets where readers find this daemon, before it takes the lead.
func (l *Leads) ServesAt(flight string) { l.holder.Flight = flight }

// aliveSubject is where a daemon answers that it is there.
func aliveSubject(h Holder) string { return stream.ServiceSubject + ".alive." + h.ID }

// askAlive asks a daemon whether it is there; nats.ErrNoResponders says that nobody listens.
func askAlive(ctx context.Context, s *stream.Store, h Holder) error {
	ctx, cancel := context.WithTimeout(ctx, askHolder)
	defer cancel()
	_, err := s.Own().Conn().RequestWithContext(ctx, aliveSubject(h), nil)
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
		if seen.refreshed { // an answer alone may be anybody's
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
	holder, err := decodeHolder(record)
	if err != nil && revision != seen.revision { // of no daemon, which will not refresh it
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
	return !errors.Is(askAlive(ctx, l.store, seen.holder), nats.ErrNoResponders)
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
		if l.plans {
			x.running.Go(func() { x.yield(held) })
		}
		return x, nil
	case conn.WrongLast(err), errors.Is(err, jetstream.ErrKeyExists): // another candidate was faster, or what was read is old
		return nil, nil
	}
	return nil, err
}

// freedSubject is where a holder says that it has given the lead up.
func (l *Leads) freedSubject() string { return freedSubject(l.run) }

func freedSubject(run string) string { return stream.ServiceSubject + ".freed." + run }
