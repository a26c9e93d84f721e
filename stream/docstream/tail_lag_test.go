package docstream_test

import (
	"bytes"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"loaderd/internal/natstest"
	"loaderd/stream"
)

// Requests to the embedded server are small however large the room is. Requests to another server are as large as the
// room.
func TestTailLag_SmallRequestsToEmbeddedServer(t *testing.T) {
	s := natstest.StartEmbedded(t)
	openLog(t, s.Store()) // makes the stream
	var messages []stream.Message
	for i := range 100 {
		messages = append(messages, stream.Message{Data: bytes.Repeat([]byte{byte('a' + i%26)}, 400_000)})
	}
	natstest.Publish(t, s.Store(), messages...)
	nc, err := nats.Connect(natstest.URL(s.Store()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var most atomic.Int64
	heard, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.>", func(m *nats.Msg) {
		var request struct {
			MaxBytes int64 `json:"max_bytes"`
		}
		if err := json.Unmarshal(m.Data, &request); err != nil {
			t.Error(err)
		}
		most.Store(max(most.Load(), request.MaxBytes)) // one goroutine at a time calls this
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name        string
		store       *stream.Store
		least, most int64
	}{
		{"inside", s.Store(), 1 << 20, 2 << 20},
		{"elsewhere", s.OpenRemote(), 3 << 20, 1 << 30},
	} {
		t.Run(x.name, func(t *testing.T) {
			most.Store(0)
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			src := openSource(t, openLog(t, x.store), 1)
			for i := range messages {
				if got, want := docText(t, nextDoc(t, src)), string(messages[i].Data); got != want {
					t.Fatalf("document %d is another", i+1)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, "requests are heard", func() bool {
				n, _, err := heard.Pending()
				return err == nil && n == 0
			})
			if n := most.Load(); n < x.least || n > x.most {
				t.Errorf("asked for %d bytes at once, want %d to %d", n, x.least, x.most)
			}
		})
	}
}
