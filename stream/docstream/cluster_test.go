package docstream_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/stream/docstream"
)

// clusterOf returns a cluster of three servers, all of which hold the n documents of the document stream.
func clusterOf(t *testing.T, n int) *natstest.Cluster {
	t.Helper()
	c := natstest.StartCluster(t, 3)
	s := c.Store()
	if _, err := s.EnsureDocuments(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, s, natstest.Documents(1, n)...)
	c.AwaitSync("DOCS")
	return c
}

func lookAt(t *testing.T, c *natstest.Cluster, members ...int) *docstream.Log {
	t.Helper()
	l, err := docstream.OpenReadOnly(natstest.Context(t), c.Store(members...), bytesTokenizing)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// An isolated leader does not have what the other servers have stored since. A read from it waits until it has caught
// up, and loses nothing.
func TestCluster_IsolatedServerLosesNoDocument(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, 10)
	old := c.Leader("DOCS")
	others := c.Followers("DOCS")
	l := lookAt(t, c, old)
	c.Isolate(old)
	c.Leader("DOCS", others...)
	natstest.Publish(t, c.Store(others...), natstest.Documents(11, 10)...)

	ctx := natstest.Context(t)
	type got struct {
		what string
		err  error
	}
	asked := make(chan got, 2)
	go func() {
		_, err := l.Content(ctx, 15)
		asked <- got{"a document", err}
	}()
	var src document.Source
	go func() {
		var err error
		src, err = document.OpenSource(ctx, l, 15, 0, func(error) {})
		asked <- got{"a reader", err}
	}()
	select {
	case g := <-asked:
		t.Errorf("%s of a server that is cut off: %v", g.what, g.err)
	case <-time.After(time.Second):
	}
	c.Heal()
	for range 2 {
		if g := <-asked; g.err != nil {
			t.Fatalf("%s: %v", g.what, g.err)
		}
	}
	defer src.Close()
	checkCounted(t, &source{Source: src}, 15, 6)
}

// Deleted documents of a cluster are reported as lost, wherever they were in the stream.
func TestCluster_ReportsDeletedDocumentsAsLost(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, 20)
	l, ctx, s := lookAt(t, c), natstest.Context(t), c.Store()
	removeDocs(t, s, 12, 20)
	purgeDocs(t, s, 6)
	_, err := l.Read(ctx, 3)
	lostRange(t, err, 3, 5)
	_, err = l.Content(ctx, 5)
	lostRange(t, err, 5, 5)
	_, err = l.Content(ctx, 12)
	lostRange(t, err, 12, 12)
	src := openSource(t, l, 6)
	checkCounted(t, src, 6, 6)
	_, err = src.Next(ctx)
	lostRange(t, err, 12, 12)
	src = openSource(t, l, 13)
	checkCounted(t, src, 13, 7)
	_, err = src.Next(ctx)
	lostRange(t, err, 20, 20)
	_, err = l.Content(ctx, 99)
	lostRange(t, err, 99, 99)
	var gone *fault.Error
	if _, err = l.Read(ctx, 30); !errors.As(err, &gone) || gone.Reason != fault.DocumentLost {
		t.Errorf("a reader behind the end: %v, want %s", err, fault.DocumentLost)
	}
}

// In a cluster another stream of the same name is reported immediately, and a missing stream only after a while.
func TestCluster_ReportsRecreatedAndMissingStream(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, 5)
	l, ctx, s := lookAt(t, c), natstest.Context(t), c.Store()
	mismatch := func(what string, least, most time.Duration, ask func(context.Context) error) {
		t.Helper()
		began := time.Now()
		err := ask(ctx)
		var other *fault.Error
		if !errors.As(err, &other) || other.Reason != fault.StreamMismatch {
			t.Errorf("%s: %v, want %s", what, err, fault.StreamMismatch)
		}
		if took := time.Since(began); took < least || took > most {
			t.Errorf("%s: told after %v, want between %v and %v", what, took, least, most)
		}
	}
	state := func(ctx context.Context) error { _, err := l.State(ctx); return err }
	remove := func() {
		t.Helper()
		if err := s.JetStream().DeleteStream(ctx, "DOCS"); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	if _, err := s.EnsureDocuments(ctx); err != nil {
		t.Fatal(err)
	}
	mismatch("a stream created again", 0, 2*time.Second, state)
	l = lookAt(t, c)
	remove()
	mismatch("no stream", 4*time.Second, 20*time.Second, state)
	mismatch("a document of no stream", 0, 20*time.Second, func(ctx context.Context) error {
		_, err := l.Content(ctx, 3)
		return err
	})
}

// While a cluster cannot create consumers, as without a meta leader, a reader gets the existing and the new documents
// of the stream.
func TestCluster_ReadsWithoutConsumer(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	s, ctx := c.Store(), natstest.Context(t)
	st, err := s.EnsureDocuments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	config := st.CachedInfo().Config
	config.MaxConsumers = 1
	if err := s.JetStream().DeleteStream(ctx, "DOCS"); err != nil {
		t.Fatal(err)
	}
	if st, err = s.JetStream().CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	if _, err := st.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "the-only-one"}); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, s, natstest.Documents(1, 600)...)
	src := openSource(t, openLog(t, s), 1)
	checkCounted(t, src, 1, 600)
	natstest.Publish(t, s, natstest.Documents(601, 20)...)
	checkCounted(t, src, 601, 20)
	if err := st.DeleteConsumer(ctx, "the-only-one"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the reader has a consumer", func() bool {
		info, err := st.Info(natstest.TimeoutContext(t, time.Second))
		return err == nil && info.State.Consumers == 1
	})
	natstest.Publish(t, s, natstest.Documents(621, 20)...)
	checkCounted(t, src, 621, 20)
}

// Lookup finds a document that the other servers have stored, through an isolated or lagging server.
func TestLookup_FindsDocumentThroughLaggingServer(t *testing.T) {
	t.Parallel()
	for what, impede := range map[string]func(*natstest.Cluster, int){
		"cut off": func(c *natstest.Cluster, member int) { c.Isolate(member) },
		"behind":  func(c *natstest.Cluster, member int) { c.Lag(member, 500*time.Millisecond) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, 10)
			old := c.Leader("DOCS")
			if what == "behind" {
				old = c.Followers("DOCS")[0]
			}
			others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == old })
			l := lookAt(t, c, old)
			impede(c, old)
			late := natstest.Documents(11, 2)
			late[1].ID = "late"
			natstest.Publish(t, c.Store(others...), late...)
			found := make(chan []uint64, 1)
			ctx := natstest.Context(t)
			go func() {
				for {
					at, err := l.Lookup(ctx, "late")
					if err == nil || ctx.Err() != nil {
						found <- at
						return
					}
				}
			}()
			if what == "cut off" {
				select {
				case at := <-found:
					t.Errorf("a server that is cut off found it at %d", at)
				case <-time.After(time.Second):
				}
				c.Heal()
			}
			if at := <-found; !slices.Equal(at, []uint64{12}) {
				t.Errorf("it is found at %d, want 12", at)
			}
		})
	}
}
