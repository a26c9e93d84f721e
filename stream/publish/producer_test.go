package publish_test

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/proxy"
	"loaderd/stream/publish"
)

// A producer of an embedded server creates no consumers. It resumes an input and finds where a document came from by
// gets.
func TestPublisher_ResumesAsProducerWithoutConsumers(t *testing.T) {
	s := natstest.StartEmbedded(t)
	if _, err := s.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store().EnsureRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := s.Config()
	c.URL = s.Store().ClientURL()
	producer, err := stream.OpenProducer(natstest.Context(t), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	docs := unnamed("text", 2300) // more than one get returns
	if done := publishInput(t, producer, "first", docs[:2200]); done.Documents != 2200 {
		t.Fatalf("published %+v", done)
	}
	shortWindow(t, s.Store())
	if done := publishInput(t, producer, "changed", docs); done.Documents != 100 || done.Duplicates != 2200 {
		t.Errorf("published again %+v, want 100 documents and 2,200 duplicates", done)
	}
	p := newPublisher(t, producer, publish.Options{})
	defer p.Close()
	if o, err := p.Origin(t.Context(), 17); err != nil || o.Path != "corpus.jsonl" || o.Input != corpusFile {
		t.Errorf("document 17 came from %+v, %v", o, err)
	}
}

// A message id beyond the limit of an embedded server is an error that names the document and the limit.
func TestPublisher_NamesDocumentWithLongID(t *testing.T) {
	s := natstest.StartEmbedded(t)
	if _, err := s.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := s.Config()
	c.URL = s.Store().ClientURL()
	producer, err := stream.OpenProducer(natstest.Context(t), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	p := newPublisher(t, producer, publish.Options{})
	docs := numbered(0, 10)
	for i := range docs {
		docs[i].Path = docs[i].ID
	}
	docs[7].ID = strings.Repeat("i", proxy.IDLimit+1)
	if err := p.Publish(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	_, err = p.Flush(t.Context())
	if err == nil || !strings.Contains(err.Error(), "document id-7: message id") ||
		!strings.Contains(err.Error(), strconv.Itoa(proxy.IDLimit)) {
		t.Errorf("an id of %d bytes: %v", len(docs[7].ID), err)
	}
}
