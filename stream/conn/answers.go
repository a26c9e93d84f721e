package conn

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// clusterSilence is how long a server of a cluster may leave a read without an answer: one that is frozen, or cut off from the stream's
// leader, takes the request along, and another one answers at once.
const clusterSilence = time.Second

// silence is how long the answer to a read, or the next of several messages that answer it, may take.
func (c *Client) silence() time.Duration {
	if c.Clustered() {
		return clusterSilence
	}
	return AttemptLimit
}

// answers puts a question to a stream, any replica of which answers with at most n messages and one that ends them. It calls f with each, in
// order, until f says that it was the last.
func (c *Client) answers(ctx context.Context, name string, question []byte, n uint64, f func(*nats.Msg) (last bool, err error)) error {
	inbox, answers := c.nc.NewRespInbox(), make(chan *nats.Msg, n+1)
	sub, err := c.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := c.nc.PublishRequest(c.API("DIRECT.GET", name), inbox, question); err != nil {
		return err
	}
	silence := time.NewTimer(c.silence())
	defer silence.Stop()
	for {
		select {
		case m := <-answers:
			if last, err := f(m); last || err != nil {
				return err
			}
			silence.Reset(c.silence())
		case <-silence.C:
			return nats.ErrTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
