package messages

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/stream/conn"
)

// requestMessages sends a request to a stream. Any replica responds, with at most n messages and a final one. answers
// calls f with each, in order, until f returns last.
func requestMessages(ctx context.Context, c *conn.Client, name string, question []byte, n uint64,
	f func(*nats.Msg) (last bool, err error)) error {
	inbox, answers := c.Conn().NewRespInbox(), make(chan *nats.Msg, n+1)
	sub, err := c.Conn().ChanSubscribe(inbox, answers)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := c.Conn().PublishRequest(c.API("DIRECT.GET", name), inbox, question); err != nil {
		return err
	}
	silence := time.NewTimer(c.ReadTimeout())
	defer silence.Stop()
	for {
		select {
		case m := <-answers:
			if last, err := f(m); last || err != nil {
				return err
			}
			silence.Reset(c.ReadTimeout())
		case <-silence.C:
			return nats.ErrTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
