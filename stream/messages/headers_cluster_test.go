package messages_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
	"loaderd/stream/messages"
)

// A server that lost its disk and is catching up accepts consumers and reports that nothing is left. EachHeader still
// returns everything that was requested, from the other servers.
func TestEachHeader_ReadsPastLaggingServer(t *testing.T) {
	t.Parallel()
	const n = 2000
	cluster := natstest.StartCluster(t, 3)
	s := cluster.Store()
	ctx := natstest.TimeoutContext(t, 3*time.Minute)
	st, err := s.EnsureDocuments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, s, natstest.Documents(1, n)...)
	cluster.AwaitSync("DOCS")
	behind := cluster.Followers("DOCS")[0]
	cluster.Kill(behind)
	cluster.Wipe(behind)
	cluster.Lag(behind, 500*time.Millisecond)
	cluster.Restart(behind)
	early := 0
	for range testscale.Of(5, 40) {
		seen := uint64(0)
		err := messages.EachHeader(ctx, s.Client, st, "docs.test", 1, n, func(sequence uint64, _ nats.Header) bool {
			if sequence != seen+1 {
				t.Fatalf("document %d follows %d", sequence, seen)
			}
			seen = sequence
			return true
		})
		if err != nil || seen != n {
			t.Fatalf("it ends at document %d of %d, %v", seen, n, err)
		}
		if cluster.LastSeq(behind, "DOCS") == n {
			break
		}
		early++
	}
	t.Logf("%d readings while a server was behind", early)
	if early == 0 {
		t.Error("no reading took place while a server was behind")
	}
}
