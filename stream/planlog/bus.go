package planlog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"loaderd/loader"
	"loaderd/stream"
)

// Bus carries words between the daemons of a run, over core NATS. With plan keys each word has a code, and one without is not heard. A stranger may
// still say again what a daemon said once: words are such that this does no harm, or is asked for again.
type Bus struct {
	nc    *nats.Conn
	run   string
	words string
	what  string // codes of words are for
	asks  string
	keys  keyring
}

var _ loader.Bus = (*Bus)(nil)

// NewBus returns the bus of a run.
func NewBus(s *stream.Store, run string) *Bus {
	return &Bus{nc: s.Own().Conn(), run: run, words: stream.ServiceSubject + ".word." + run, what: macWord, asks: stream.ServiceSubject + ".ask." + run, keys: s.PlanKeys()}
}

// NewStatusBus returns another bus of a run, for what daemons say of themselves to be shown; nothing of the run depends on it. Nobody asks by it.
func NewStatusBus(s *stream.Store, run string) *Bus {
	b := NewBus(s, run)
	b.words, b.what = stream.ServiceSubject+".status."+run, macStatus
	return b
}

// message is a word with its code; with is what it belongs to.
func (b *Bus) message(subject, what string, word []byte, with ...[]byte) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = word
	if len(b.keys) > 0 {
		m.Header.Set(macHeader, b.keys.text(what, b.run, append(with, word)...))
	}
	return m
}

// heard reports whether a daemon of the run may have sent a message.
func (b *Bus) heard(m *nats.Msg, what string, with ...[]byte) bool {
	return len(b.keys) == 0 || b.keys.read(m.Header.Get(macHeader), what, b.run, append(with, m.Data)...)
}

// Say implements loader.Bus.
func (b *Bus) Say(word []byte) error { return b.nc.PublishMsg(b.message(b.words, b.what, word)) }

// Hear implements loader.Bus.
func (b *Bus) Hear(f func(word []byte)) (stop func(), err error) {
	return b.subscribe(b.words, func(m *nats.Msg) {
		if b.heard(m, b.what) {
			f(m.Data)
		}
	})
}

// Ask implements loader.Bus.
func (b *Bus) Ask(ctx context.Context, question []byte) ([]byte, error) {
	if len(b.keys) > 0 {
		return b.askKeyed(ctx, question)
	}
	m, err := b.nc.RequestWithContext(ctx, b.asks, question)
	switch {
	case err == nil:
		return m.Data, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", loader.ErrNobodyLeads, err)
}

// askKeyed is Ask where answers have codes: it waits for the first that has one.
func (b *Bus) askKeyed(ctx context.Context, question []byte) ([]byte, error) {
	inbox := b.nc.NewInbox()
	answers, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", loader.ErrNobodyLeads, err)
	}
	defer answers.Unsubscribe() //nolint:errcheck // fails only when the connection is closed
	asked := b.message(b.asks, macQuestion, question)
	asked.Reply = inbox
	err = b.nc.PublishMsg(asked)
	for err == nil {
		var m *nats.Msg
		if m, err = answers.NextMsgWithContext(ctx); err != nil {
			break
		}
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			err = nats.ErrNoResponders
		} else if b.heard(m, macAnswer, question) { // else the answer of a stranger, who was faster
			return m.Data, nil
		}
	}
	if ctx.Err() != nil {
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
		if !b.heard(m, macQuestion) {
			return
		}
		select {
		case room <- struct{}{}:
		default:
			return // who hears nothing asks again
		}
		go func() {
			defer func() { <-room }()
			_ = m.RespondMsg(b.message(m.Reply, macAnswer, f(ctx, m.Data), m.Data)) // likewise
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
