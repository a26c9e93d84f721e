package conn

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// The operations that a client may be without, as subjects name them. It does something else then.
const (
	OpPurge          = "STREAM.PURGE"
	OpCreateConsumer = "CONSUMER.CREATE"
)

// Denied reports whether a request of an operation on a stream failed because this client may not make it, and
// remembers that. Its permissions may deny it: then the last thing that a server said of the connection is so, and the
// request has no answer. Or its account gets only some of JetStream's requests from another account: then nobody takes
// this one, while JetStream itself answers.
func (c *Client) Denied(ctx context.Context, operation, stream string, err error) bool {
	if err == nil {
		return false
	}
	last := c.nc.LastError()
	violated := errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(strings.ToUpper(last.Error()), operation)
	if violated || errors.Is(err, nats.ErrNoResponders) && c.nobodyTakes(ctx, c.API(operation, stream)) {
		c.denies.Store(operation, nil)
		return true
	}
	return false
}

// nobodyTakes says whether nobody takes requests on a subject at a time when JetStream answers.
func (c *Client) nobodyTakes(ctx context.Context, subject string) bool {
	if c.askAccount(ctx, lastAnswer) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lastAnswer)
	defer cancel()
	_, err := c.nc.RequestMsgWithContext(ctx, harmless(subject))
	return errors.Is(err, nats.ErrNoResponders)
}

// MayNot reports whether an operation was denied before.
func (c *Client) MayNot(operation string) bool {
	_, denied := c.denies.Load(operation)
	return denied
}
