package docstream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/loader/plan"
	"loaderd/packonline/similarity"
	"loaderd/stream"
	"loaderd/stream/deadletter"
	"loaderd/stream/docstream"
)

// TestOpenReadOnly_CreatesNothing reads a stream without creating one. Undecodable documents leave no dead letter.
func TestOpenReadOnly_CreatesNothing(t *testing.T) {
	srv := natstest.Start(t)
	ctx := natstest.Context(t)
	if _, err := docstream.OpenReadOnly(ctx, srv.Store(), bytesTokenizing); !errors.Is(err, docstream.ErrNoStream) {
		t.Fatalf("without a stream the error is %v", err)
	}
	if _, err := srv.Store().EnsureDocuments(ctx); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, srv.Store(), stream.Message{Subject: "docs.a", Data: []byte("{"), ContentType: stream.TypeJSON},
		stream.Message{Subject: "docs.a", Data: []byte("ab")})
	l, err := docstream.OpenReadOnly(ctx, srv.Store(), bytesTokenizing)
	if err != nil {
		t.Fatal(err)
	}
	src := openSource(t, l, 1)
	if d := nextDoc(t, src); d.Skip != plan.SkipUndecodable {
		t.Errorf("the first document is %+v", d)
	}
	if d := nextDoc(t, src); d.Len() != 3 {
		t.Errorf("the second document is %+v", d)
	}
	if c := l.DeadLetters(); c != (deadletter.Counts{}) {
		t.Errorf("dead letters are counted: %+v", c)
	}
	if _, err := srv.Store().JetStream().Stream(ctx, srv.Config().DeadLetterName()); !errors.Is(err,
		jetstream.ErrStreamNotFound) {
		t.Errorf("the stream of dead letters is there: %v", err)
	}
}

// A producer's message with the headers under which the server reports a message's position is read like any other
// message.
func TestReader_IgnoresPositionHeadersOfProducers(t *testing.T) {
	srv := natstest.Start(t)
	tokenizing := bytesTokenizing
	tokenizing.Hints = &similarity.Config{Retriever: "repo"}
	l, err := docstream.Open(natstest.Context(t), srv.Store(), tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg("docs.web")
	m.Data = []byte("hello")
	for name, value := range map[string]string{jetstream.SubjectHeader: "docs.other", jetstream.SequenceHeader: "77"} {
		m.Header.Set(name, value)
	}
	if _, err := srv.Store().JetStream().PublishMsg(natstest.Context(t), m); err != nil {
		t.Fatal(err)
	}
	d := nextDoc(t, openSource(t, l, 1))
	h, err := l.PackingHints(natstest.Context(t), 1)
	if err != nil || h[0].Hint.Source != d.Hint.Source {
		t.Errorf("read again it is about %+v, %v, want %+v", h, err, d.Hint)
	}
	if info, err := l.Describe(natstest.Context(t), 1); err != nil || info.Subject != "docs.web" || info.Sequence != 1 {
		t.Errorf("it is described as %+v, %v", info, err)
	}
}

// A request whose response is lost with its connection is repeated over the next one.
func TestContent_RepeatsRequestAfterLostConnection(t *testing.T) {
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 1)...)
	link := natstest.NewLink(t, srv.Store().ClientURL())
	l := openLog(t, srv.OpenRemoteAt(link.URL()))
	if _, err := l.Content(natstest.Context(t), 1); err != nil {
		t.Fatal(err)
	}
	link.DropResponses()
	asked := make(chan error, 1)
	go func() {
		_, err := l.Content(natstest.Context(t), 1)
		asked <- err
	}()
	select {
	case err := <-asked:
		t.Fatalf("an answer came over a deaf link: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	link.Cut()
	link.Restore()
	if err := <-asked; err != nil {
		t.Error(err)
	}
}
