package planlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"loaderd/stream"
)

// leaseWindow is how long a candidate waits for answers of others after its own question has come back to it.
const leaseWindow = 250 * time.Millisecond

// Holder says who plans a run.
type Holder struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Flight  string    `json:"flight"` // where readers find it
}

func (h Holder) String() string {
	return fmt.Sprintf("process %d on %s, started %s, serving at %s", h.PID, h.Host, h.Started.Format(time.RFC3339), h.Flight)
}

// LedError says that another live process plans the run.
type LedError struct {
	Run    string
	Holder Holder
}

func (e *LedError) Error() string {
	return fmt.Sprintf("run %s is planned by %s: stop it, point readers there, or give this daemon another run", e.Run, e.Holder)
}

// Lease says that this process plans a run, for as long as it lives and its connection stands.
//
// It is a service that answers "who plans this run?". Nobody answering means that nobody plans it, so a run can be taken over the
// moment its planner dies, without a timeout. It spares people mistakes; it is not what keeps a plan sound: a planner that is
// stopped or cut off cannot answer, and two may then believe that they lead. Against that stands the expected position of
// every append (invariant L2), by which all but one of them are deposed.
type Lease struct {
	run    string
	id     string
	holder Holder
	sub    *nats.Subscription

	mu      sync.Mutex
	leading bool
	beaten  *Holder // by another candidate
}

// leaseWord is question and answer alike.
type leaseWord struct {
	ID      string `json:"id"`
	Leading bool   `json:"leading"`
	Holder  Holder `json:"holder"`
}

func decodeLeaseWord(b []byte) (leaseWord, error) {
	var w leaseWord
	if err := json.Unmarshal(b, &w); err != nil {
		return w, fmt.Errorf("decode lease message: %w", err)
	}
	if w.ID == "" {
		return w, errors.New("decode lease message: it has no id")
	}
	return w, nil
}

// TakeLease makes this process the planner of a run, or returns *LedError when another one is.
//
// Of candidates that ask at one moment the one with the smallest id leads. Each subscribes before it asks, so of any two at least
// one hears the other's question; hearing a smaller id it gives way, hearing a larger one it says so in its answer.
func TakeLease(ctx context.Context, s *stream.Store, run string, who Holder) (*Lease, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	l := &Lease{run: run, id: nuid.Next(), holder: who}
	subject := stream.ServiceSubject + ".lead." + run
	err := s.Retry(ctx, "take lead of run "+run, func(ctx context.Context) error { return l.campaign(ctx, s.Conn(), subject) })
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lease) campaign(ctx context.Context, nc *nats.Conn, subject string) error {
	if l.sub == nil {
		sub, err := nc.Subscribe(subject, l.answer)
		if err != nil {
			return err
		}
		l.sub = sub
	}
	inbox := nc.NewRespInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer answers.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := nc.FlushWithContext(ctx); err != nil {
		return err
	}
	question, err := json.Marshal(leaseWord{ID: l.id, Holder: l.holder})
	if err != nil {
		return err
	}
	if err := nc.PublishRequest(subject, inbox, question); err != nil {
		return err
	}
	return l.hear(ctx, answers)
}

// hear collects answers until the window behind our own closes, and takes the lead if nobody objects.
func (l *Lease) hear(ctx context.Context, answers *nats.Subscription) error {
	limit, own := ctx, false
	for {
		m, err := answers.NextMsgWithContext(limit)
		if err != nil {
			if own && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				break
			}
			return err
		}
		w, err := decodeLeaseWord(m.Data)
		switch {
		case err != nil: // not one of us
		case w.ID == l.id && !own:
			own = true
			var cancel context.CancelFunc
			limit, cancel = context.WithTimeout(ctx, leaseWindow)
			defer cancel()
		case w.ID != l.id && (w.Leading || w.ID < l.id):
			return &LedError{l.run, w.Holder}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.beaten != nil {
		return &LedError{l.run, *l.beaten}
	}
	l.leading = true
	return nil
}

func (l *Lease) answer(m *nats.Msg) {
	l.mu.Lock()
	asker, err := decodeLeaseWord(m.Data)
	if err == nil && !l.leading && asker.ID < l.id && l.beaten == nil {
		l.beaten = &asker.Holder
	}
	word := leaseWord{ID: l.id, Leading: l.leading, Holder: l.holder}
	l.mu.Unlock()
	if b, err := json.Marshal(word); err == nil {
		m.Respond(b) //nolint:errcheck // an asker that hears nothing asks again
	}
}

// Holder is who leads: this process.
func (l *Lease) Holder() Holder { return l.holder }

// Close gives the run up: from now on another process may plan it.
func (l *Lease) Close() error {
	if l.sub == nil {
		return nil
	}
	err := l.sub.Unsubscribe()
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		return fmt.Errorf("give up lead of run %s: %w", l.run, err)
	}
	return nil
}
