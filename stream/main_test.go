package stream_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The server's shutdown forgets the staging store of an atomic batch that is cut off while it arrives: its two loops, and the clock
// that it registered with, stay.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
		goleak.IgnoreTopFunction(server+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
	)
}
