package natstest

import (
	"testing"

	"go.uber.org/goleak"
)

// VerifyTestMain runs a package's tests and fails when they leave goroutines behind, those aside that are the server's
// own: when its shutdown cuts an atomic batch off while it arrives, the two loops of the batch's staging store stay,
// and the clock that it uses. Where a connection closes while the client library begins to store an object, one of the
// library's waits for a word of it that has passed. more are what a package has to leave aside beside these.
func VerifyTestMain(m *testing.M, more ...goleak.Option) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, append(more,
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
		goleak.IgnoreTopFunction(server+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
	)...)
}
