package natstest

import (
	"testing"

	"go.uber.org/goleak"
)

// VerifyTestMain runs a package's tests and fails if they leak goroutines, except known leaks of the server and the
// client library. If the server's shutdown interrupts an atomic batch, the two loops of the batch's staging store and
// their clock remain. If a connection closes when the client library starts to store an object, one of the library's
// goroutines waits for a notification that has already passed. more are further exceptions of a package.
func VerifyTestMain(m *testing.M, more ...goleak.Option) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, append(more,
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
		goleak.IgnoreTopFunction(server+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
	)...)
}
