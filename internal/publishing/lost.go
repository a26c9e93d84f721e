package publishing

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// LostConnection says whether an error comes from the way to the server, not from what was published.
func LostConnection(err error) bool {
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
