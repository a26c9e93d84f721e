package permissions_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/api"
	"loaderd/internal/daemontest"
	"loaderd/internal/natstest"
	natsserver "loaderd/stream/server"
)

// A document that the server sends to a request's subject, as the response to a get, is not taken for a request. The
// daemon reads all documents.
func TestProducerToken_StoredDocumentIsNoRequest(t *testing.T) {
	c := daemontest.Settings(t, "")
	d := daemontest.Start(t, c)
	ctx := natstest.TimeoutContext(t, time.Minute)
	messages := daemontest.GoSource(t, 400)
	producer := natstest.URLWithToken(d.Store().ClientURL(), c.Stream.Dir, natsserver.ProducerFile)
	daemontest.Publish(t, natstest.URL(d.Store()), messages[:300])
	nc, err := nats.Connect(producer)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	requests := map[string]string{
		"$JS.API.STREAM.MSG.DELETE.DOCS": `{"seq":1}`,
		"$JS.API.STREAM.PURGE.DOCS":      "",
		"$JS.API.STREAM.UPDATE.DOCS":     `{"name":"DOCS","subjects":["docs.>"],"storage":"file","sealed":true}`,
		"$JS.API.STREAM.DELETE.DOCS":     "",
		"dlq.docs.x":                     "forged",
	}
	for request, body := range requests {
		stored, err := nc.RequestWithContext(ctx, "docs.carrier", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		var ack struct {
			Seq uint64 `json:"seq"`
		}
		if err := json.Unmarshal(stored.Data, &ack); err != nil || ack.Seq == 0 {
			t.Fatalf("a document is not stored: %s, %v", stored.Data, err)
		}
		if err := nc.PublishRequest("$JS.API.DIRECT.GET.DOCS", request, fmt.Appendf(nil, `{"seq":%d}`, ack.Seq)); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET.DOCS", []byte(`{"seq":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	daemontest.Publish(t, natstest.URL(d.Store()), messages[300:])
	st, err := d.Store().JetStream().Stream(ctx, "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	if s := st.CachedInfo().State; s.FirstSeq != 1 || s.Msgs != uint64(len(messages)+len(requests)) {
		t.Errorf("the stream has %d documents from %d, want %d", s.Msgs, s.FirstSeq, len(messages)+len(requests))
	}
	if letters, err := d.Store().JetStream().Stream(ctx, "DOCS_DLQ"); err != nil || letters.CachedInfo().State.Msgs > 0 {
		t.Errorf("a producer made a dead letter: %v, %v", letters, err)
	}
	if got := daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: 80}); len(got) != 80 {
		t.Errorf("%d steps, want 80", len(got))
	}
}
