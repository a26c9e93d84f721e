package publish_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/publish"
)

// The next publisher gets the stored queue. The publisher that stored it can then no longer write it.
func TestQueue_NextPublisherTakesOver(t *testing.T) {
	s := publishStore(t)
	p := newPublisher(t, s, publish.Options{})
	open := func(follows ...string) *publish.Queue {
		t.Helper()
		q, err := p.Queue(t.Context(), follows)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	first := open("/a/*", "/b/*")
	for _, inputs := range [][]string{{"/a/2", "/a/1"}, {"/b/1"}} {
		if err := first.Write(t.Context(), inputs); err != nil {
			t.Fatal(err)
		}
		if got := open("/a/*", "/b/*").Inputs(); !slices.Equal(got, inputs) {
			t.Errorf("%v is written down, want %v", got, inputs)
		}
	}
	if got := open("/a/*").Inputs(); got != nil {
		t.Errorf("%v is written down for whoever follows something else", got)
	}
	if err := open("/a/*", "/b/*").Write(t.Context(), []string{"/a/3"}); err != nil {
		t.Fatal(err)
	}
	if err := first.Write(t.Context(), []string{"/a/4"}); !errors.Is(err, publish.ErrTakenOver) {
		t.Errorf("the first one writes on: %v", err)
	}
}

// State returns what is recorded, and records nothing.
func TestState_ReturnsRecordedState(t *testing.T) {
	s := publishStore(t)
	p := newPublisher(t, s, publish.Options{})
	is := func(fingerprint string, want publish.State) {
		t.Helper()
		if got, err := p.State(t.Context(), "/input", fingerprint); err != nil || got != want {
			t.Errorf("state %d (%v), want %d", got, err, want)
		}
	}
	is("one", publish.Unknown)
	r, err := p.Resume(t.Context(), "/input", "one")
	if err != nil {
		t.Fatal(err)
	}
	is("one", publish.Partial)
	is("two", publish.Partial)
	if err := r.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	is("one", publish.Complete)
	is("two", publish.Changed)
}

// FuzzPublishQueue opens a queue for which the server holds any value. The result is an error, or names.
func FuzzPublishQueue(f *testing.F) {
	for _, s := range []string{"", "{}", "null", "[]", `{"version":1}`, `{"version":9,"queue":["/a"]}`,
		`{"version":1,"queue":["/a"]}`, `{"version":1,"queue":"/a"}`, "\xff"} {
		f.Add([]byte(s))
	}
	s := publishStore(f)
	kv, err := s.JetStream().CreateOrUpdateKeyValue(f.Context(), jetstream.KeyValueConfig{Bucket: "loaderd_publish"})
	if err != nil {
		f.Fatal(err)
	}
	p := newPublisher(f, s, publish.Options{})
	sum := sha256.Sum256([]byte(s.Config().Name + "\x00" + "web" + "\x00" + "/a/*" + "\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := kv.Put(t.Context(), "web.queue."+hex.EncodeToString(sum[:16]), data); err != nil {
			t.Fatal(err)
		}
		q, err := p.Queue(t.Context(), []string{"/a/*"})
		if err == nil && len(q.Inputs()) > 0 {
			t.Fatalf("%q: names of another stream: %v", data, q.Inputs())
		}
	})
}
