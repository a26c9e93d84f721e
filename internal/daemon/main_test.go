package daemon

import (
	"testing"

	"go.uber.org/goleak"
)

// The embedded server's shutdown leaves the loops of an atomic batch's staging store and its clock behind.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
		goleak.IgnoreTopFunction(server+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
	)
}
