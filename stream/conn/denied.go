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

// CheckDenied reports whether a request of an operation on a stream failed because this client may not make it, and
// remembers the result. If the user's permissions deny it, the request has no response and the connection's last
// error is a permission violation. If the account imports only some of JetStream's requests from another account, the
// request has no responders although JetStream itself responds.
func (c *Client) CheckDenied(ctx context.Context, operation, stream string, err error) bool {
	if err == nil {
		return false
	}
	last := c.nc.LastError()
	violated := errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(strings.ToUpper(last.Error()), operation)
	if violated || errors.Is(err, nats.ErrNoResponders) && c.hasNoResponders(ctx, c.API(operation, stream)) {
		c.deniedOperations.Store(operation, nil)
		return true
	}
	return false
}

// hasNoResponders reports whether a subject has no responders while JetStream responds.
func (c *Client) hasNoResponders(ctx context.Context, subject string) bool {
	if c.requestAccount(ctx, maxAccountTimeout) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, maxAccountTimeout)
	defer cancel()
	_, err := c.nc.RequestMsgWithContext(ctx, probeMessage(subject))
	return errors.Is(err, nats.ErrNoResponders)
}

// WasDenied reports whether Denied has found an operation to be denied.
func (c *Client) WasDenied(operation string) bool {
	_, denied := c.deniedOperations.Load(operation)
	return denied
}
