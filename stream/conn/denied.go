package conn

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// Operations that a client may lack permission for, as subjects name them. The callers have a fallback for each.
const (
	OpPurge          = "STREAM.PURGE"
	OpCreateConsumer = "CONSUMER.CREATE"
)

// Denied reports whether a request of an operation on a stream failed because this client may not make it, and
// remembers the result. If the user's permissions deny it, the request has no response and the connection's last
// error is a permission violation. If the account imports only some of JetStream's requests from another account, the
// request has no responders although JetStream itself responds.
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

// nobodyTakes reports whether a subject has no responders while JetStream responds.
func (c *Client) nobodyTakes(ctx context.Context, subject string) bool {
	if c.askAccount(ctx, lastAnswer) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lastAnswer)
	defer cancel()
	_, err := c.nc.RequestMsgWithContext(ctx, harmless(subject))
	return errors.Is(err, nats.ErrNoResponders)
}

// MayNot reports whether Denied has found an operation to be denied.
func (c *Client) MayNot(operation string) bool {
	_, denied := c.denies.Load(operation)
	return denied
}
