// Package daemonbus carries messages between the daemons of a run over core NATS.
package daemonbus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/mac"
)

// Bus implements backend.Bus. With plan keys each message has a MAC, and messages without a valid MAC are ignored. A
// replayed message of a daemon is not detected, because a replay of heartbeats and requests is harmless.
type Bus struct {
	nc         *nats.Conn
	run        string
	heartbeats string // subject
	purpose    string // of the MACs of heartbeats
	requests   string // subject
	keys       mac.Keyring
}

var _ backend.Bus = (*Bus)(nil)

// Subjects returns the subjects of a run on which its daemons send and receive.
func Subjects(run string) (heartbeats, status, requests string) {
	return stream.ServiceSubject + ".word." + run, stream.ServiceSubject + ".status." + run,
		stream.ServiceSubject + ".ask." + run
}

// New returns the bus of a run.
func New(s *stream.Store, run string) *Bus {
	heartbeats, _, requests := Subjects(run)
	return &Bus{nc: s.Own().Conn(), run: run, heartbeats: heartbeats, purpose: mac.Heartbeat, requests: requests,
		keys: s.PlanKeys()}
}

// NewStatus returns a separate bus of a run, for the status messages of its daemons. The run does not depend on them,
// and no daemon sends requests over it.
func NewStatus(s *stream.Store, run string) *Bus {
	b := New(s, run)
	_, b.heartbeats, _ = Subjects(run)
	b.purpose = mac.Status
	return b
}

// message returns a message with its MAC, which also covers the message that it responds to.
func (b *Bus) message(subject, purpose string, data []byte, to ...[]byte) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = data
	if len(b.keys) > 0 {
		m.Header.Set(mac.Header, b.keys.ComputeHex(purpose, b.run, append(to, data)...))
	}
	return m
}

// isValid reports whether a daemon of the run can have sent a message.
func (b *Bus) isValid(m *nats.Msg, purpose string, to ...[]byte) bool {
	return len(b.keys) == 0 || b.keys.VerifyHex(m.Header.Get(mac.Header), purpose, b.run, append(to, m.Data)...)
}

// Publish implements backend.Bus.
func (b *Bus) Publish(heartbeat []byte) error {
	return b.nc.PublishMsg(b.message(b.heartbeats, b.purpose, heartbeat))
}

// Subscribe implements backend.Bus.
func (b *Bus) Subscribe(f func(heartbeat []byte)) (stop func(), err error) {
	return b.subscribe(b.heartbeats, func(m *nats.Msg) {
		if b.isValid(m, b.purpose) {
			f(m.Data)
		}
	})
}

// Request implements backend.Bus.
func (b *Bus) Request(ctx context.Context, request []byte) ([]byte, error) {
	if len(b.keys) > 0 {
		return b.requestWithMAC(ctx, request)
	}
	m, err := b.nc.RequestWithContext(ctx, b.requests, request)
	switch {
	case err == nil:
		return m.Data, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", fault.ErrNoLeader, err)
}

// requestWithMAC is Request for responses with MACs. It waits for the first valid one.
func (b *Bus) requestWithMAC(ctx context.Context, request []byte) ([]byte, error) {
	inbox := b.nc.NewInbox()
	responses, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrNoLeader, err)
	}
	defer responses.Unsubscribe() //nolint:errcheck // fails only when the connection is closed
	sent := b.message(b.requests, mac.Request, request)
	sent.Reply = inbox
	err = b.nc.PublishMsg(sent)
	for err == nil {
		var m *nats.Msg
		if m, err = responses.NextMsgWithContext(ctx); err != nil {
			break
		}
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			err = nats.ErrNoResponders
		} else if b.isValid(m, mac.Response, request) { // otherwise a process without a key has responded
			return m.Data, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", fault.ErrNoLeader, err)
}

// maxRequests bounds how many requests are served at a time.
const maxRequests = 1024

// Serve implements backend.Bus.
func (b *Bus) Serve(f func(ctx context.Context, request []byte) []byte) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	room := make(chan struct{}, maxRequests)
	unsubscribe, err := b.subscribe(b.requests, func(m *nats.Msg) {
		if !b.isValid(m, mac.Request) {
			return
		}
		select {
		case room <- struct{}{}:
		default:
			return // the requesting daemon repeats a request without a response
		}
		go func() {
			defer func() { <-room }()
			// the requesting daemon repeats a request without a response
			_ = m.RespondMsg(b.message(m.Reply, mac.Response, f(ctx, m.Data), m.Data))
		}()
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return func() { unsubscribe(); cancel() }, nil
}

func (b *Bus) subscribe(subject string, f nats.MsgHandler) (stop func(), err error) {
	sub, err := b.nc.Subscribe(subject, f)
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", subject, err)
	}
	return func() {
		_ = sub.Unsubscribe() // fails only when the connection is closed
	}, nil
}
