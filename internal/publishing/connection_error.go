package publishing

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// IsConnectionError reports whether an error is of the connection to the server, not of the published data.
func IsConnectionError(err error) bool {
	for _, e := range []error{
		nats.ErrConnectionClosed, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrStaleConnection,
		nats.ErrTimeout,
		nats.ErrNoResponders, context.DeadlineExceeded, jetstream.ErrNoStreamResponse, jetstream.ErrServerShutdown,
		jetstream.ErrNoHeartbeat,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
