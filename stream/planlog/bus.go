package planlog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"loaderd/loader"
	"loaderd/stream"
)

// Bus carries words between the daemons of a run, over core NATS.
type Bus struct {
	nc    *nats.Conn
	words string
	asks  string
}

var _ loader.Bus = (*Bus)(nil)

// NewBus returns the bus of a run.
func NewBus(s *stream.Store, run string) *Bus {
	return &Bus{nc: s.Own().Conn(), words: stream.ServiceSubject + ".word." + run, asks: stream.ServiceSubject + ".ask." + run}
}

// Say implements loader.Bus.
func (b *Bus) Say(word []byte) error { return b.nc.Publish(b.words, word) }

// Hear implements loader.Bus.
func (b *Bus) Hear(f func(word []byte)) (stop func(), err error) {
	return b.subscribe(b.words, func(m *nats.Msg) { f(m.Data) })
}

// Ask implements loader.Bus.
func (b *Bus) Ask(ctx context.Context, question []byte) ([]byte, error) {
	m, err := b.nc.RequestWithContext(ctx, b.asks, question)
	switch {
	case err == nil:
		return m.Data, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", loader.ErrNobodyLeads, err)
}

// maxQuestions bounds how many questions are answered at a time.
const maxQuestions = 1024

// Answer implements loader.Bus.
func (b *Bus) Answer(f func(ctx context.Context, question []byte) []byte) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	room := make(chan struct{}, maxQuestions)
	quiet, err := b.subscribe(b.asks, func(m *nats.Msg) {
		select {
		case room <- struct{}{}:
		default:
			return // who hears nothing asks again
		}
		go func() {
			defer func() { <-room }()
			_ = m.Respond(f(ctx, m.Data)) // likewise
		}()
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return func() { quiet(); cancel() }, nil
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
