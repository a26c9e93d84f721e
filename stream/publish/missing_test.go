package publish_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"loaderd/stream"
	"loaderd/stream/publish"
)

// A starting daemon creates the streams of its sources one by one. A producer that connects meanwhile waits for the
// stream of its source.
func TestNew_WaitsForStreamOfItsSource(t *testing.T) {
	s := publishStore(t)
	names := []string{"books", "code", "math"}
	if _, err := s.Source(names[0], len(names)).EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		for _, name := range names[1:] {
			time.Sleep(500 * time.Millisecond)
			if _, err := s.Source(name, len(names)).EnsureDocuments(t.Context()); err != nil {
				made <- err
				return
			}
		}
		made <- nil
	}()
	p, err := publish.New(t.Context(), s, "math", publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := <-made; err != nil || p.Documents().Config().Name != "DOCS_math" {
		t.Errorf("it publishes to %s, %v", p.Documents().Config().Name, err)
	}
	var none *stream.NoSourceError
	_, err = publish.New(t.Context(), s, "maths", publish.Options{})
	if !errors.As(err, &none) || !slices.Equal(none.Existing, names) {
		t.Errorf("to a source that there is not: %v", err)
	}
}
