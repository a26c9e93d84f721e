package publish_test

import (
	"slices"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// A publisher continues where another one stopped, also through an isolated or lagging server. It neither duplicates
// nor omits a document.
func TestRecord_ResumesThroughLaggingServer(t *testing.T) {
	t.Parallel()
	for what, impede := range map[string]func(*natstest.Cluster, int){
		"cut off": func(c *natstest.Cluster, member int) { c.Isolate(member) },
		"behind":  func(c *natstest.Cluster, member int) { c.Lag(member, 500*time.Millisecond) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := natstest.StartCluster(t, 3)
			s, ctx := c.Store(), natstest.TimeoutContext(t, 3*time.Minute)
			shortWindow(t, s)
			docs := unnamed("document", 300)
			publishPart(t, s, docs[:100])
			c.AwaitSync("DOCS", "KV_loaderd_publish")
			old := c.Leader("DOCS")
			if what == "behind" {
				old = c.Followers("DOCS")[0]
			}
			others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == old })
			p := newPublisher(t, c.Store(old), publish.Options{})
			impede(c, old)
			publishPart(t, c.Store(others...), docs[:200])
			resumed := make(chan error, 1)
			var r *publish.Record
			go func() {
				var err error
				r, err = p.Resume(ctx, corpusFile, "v1")
				resumed <- err
			}()
			if what == "cut off" {
				select {
				case err := <-resumed:
					t.Fatalf("Resume takes the word of a server that is cut off, and returns %v", err)
				case <-time.After(2 * time.Second):
				}
				c.Heal()
			}
			if err := <-resumed; err != nil {
				t.Fatal(err)
			}
			publishAll(t, r, docs)
			if done := flush(t, p); done.Documents != 100 || done.Duplicates != 200 {
				t.Errorf("%+v, want 100 documents, and 200 that are there", done)
			}
			c.Heal()
			wantStored(t, s, texts(docs))
		})
	}
}

// publishPart publishes documents of an input without finishing it.
func publishPart(t *testing.T, s *stream.Store, docs []stream.Message) {
	t.Helper()
	p := newPublisher(t, s, publish.Options{BatchMessages: 50})
	defer p.Close()
	r, err := p.Resume(t.Context(), corpusFile, "v1")
	if err != nil {
		t.Fatal(err)
	}
	publishAll(t, r, docs)
	flush(t, p)
}

func publishAll(t *testing.T, r *publish.Record, docs []stream.Message) {
	t.Helper()
	for _, d := range docs {
		if err := r.Publish(t.Context(), corpusFile, d); err != nil {
			t.Fatal(err)
		}
	}
}
