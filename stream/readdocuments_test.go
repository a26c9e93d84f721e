package stream_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/loader"
	"loaderd/stream"
)

// TestReadDocuments looks at a stream: nothing is created, and what cannot be decoded leaves no letter.
func TestReadDocuments(t *testing.T) {
	srv := natstest.Start(t)
	ctx := testContext(t)
	if _, err := srv.Store().ReadDocuments(ctx, bytesTokenizing); !errors.Is(err, stream.ErrNoDocuments) {
		t.Fatalf("without a stream the error is %v", err)
	}
	if _, err := srv.Store().EnsureDocuments(ctx); err != nil {
		t.Fatal(err)
	}
	publishAll(t, srv.Store(), stream.Message{Subject: "docs.a", Data: []byte("{"), ContentType: stream.TypeJSON}, stream.Message{Subject: "docs.a", Data: []byte("ab")})
	l, err := srv.Store().ReadDocuments(ctx, bytesTokenizing)
	if err != nil {
		t.Fatal(err)
	}
	src := openSource(t, l, 1)
	if d := nextDoc(t, src); d.Skip != loader.SkipUndecodable {
		t.Errorf("the first document is %+v", d)
	}
	if d := nextDoc(t, src); len(d.Tokens) != 3 {
		t.Errorf("the second document is %+v", d)
	}
	if c := l.DeadLetters(); c != (stream.DeadLetterCounts{}) {
		t.Errorf("dead letters are counted: %+v", c)
	}
	if _, err := srv.Store().JetStream().Stream(ctx, srv.Config().DeadLetterName()); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream of dead letters is there: %v", err)
	}
}
