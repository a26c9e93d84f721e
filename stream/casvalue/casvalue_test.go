package casvalue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/stream"
)

// counts is the type of the values in these tests.
type counts map[string]int

func (counts) Check() error { return nil }

func openCount(t *testing.T, s *stream.Store) *Value[counts] {
	t.Helper()
	c, err := Open[counts](natstest.TimeoutContext(t, time.Minute), s, "bucket", "a test's", "key/1", "counts")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// count increments the number of a name, and counts its own calls.
func (c *counter) count(old counts) (counts, error) {
	c.calls++
	next := counts{c.name: old[c.name] + 1}
	for name, n := range old {
		if name != c.name {
			next[name] = n
		}
	}
	return next, nil
}

type counter struct {
	name  string
	calls int
}

// Concurrent changes of several processes are all applied, each once.
func TestValue_ConcurrentUpdatesAreAllApplied(t *testing.T) {
	srv := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	var all sync.WaitGroup
	for i, s := range []*stream.Store{srv.Store(), srv.OpenRemote(), srv.OpenRemote()} {
		c, own := openCount(t, s), &counter{name: fmt.Sprint(i)}
		all.Go(func() {
			for n := range 30 {
				if v, err := c.Update(ctx, own.count); err != nil || v[own.name] != n+1 {
					t.Errorf("change %d of %s: %v, %v", n, own.name, v, err)
				}
			}
		})
	}
	all.Wait()
	if v, _, err := openCount(t, srv.Store()).Read(ctx); err != nil || fmt.Sprint(v.Value) != "map[0:30 1:30 2:30]" {
		t.Errorf("they count %v, %v", v.Value, err)
	}
}

// A change whose response is lost is found to be stored and is not applied twice. A change that was not sent is
// applied.
func TestValue_LostResponsesApplyOnce(t *testing.T) {
	srv := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	link := natstest.NewLink(t, srv.Store().ClientURL())
	near, far := openCount(t, srv.Store()), openCount(t, srv.OpenRemoteAt(link.URL()))
	own := &counter{name: "a"}
	for n := 1; n <= 5; n++ {
		// The value is read before responses are dropped, as when only the response to the write is lost.
		deafened := func(old counts) (counts, error) {
			if own.calls < n {
				link.DropResponses()
			}
			return own.count(old)
		}
		done := make(chan error, 1)
		go func() {
			v, err := far.Update(ctx, deafened)
			if err == nil && v["a"] != n {
				err = fmt.Errorf("it counts %v, want %d", v, n)
			}
			done <- err
		}()
		natstest.Eventually(t, "the change is stored", func() bool {
			v, _, err := near.Read(ctx)
			return err == nil && v.Value["a"] == n
		})
		link.Cut()
		link.Restore()
		if err := <-done; err != nil || own.calls != n {
			t.Fatalf("change %d was made %d times: %v", n, own.calls, err)
		}
	}
	link.Cut()
	done := make(chan error, 1)
	go func() { _, err := far.Update(ctx, own.count); done <- err }()
	if _, err := near.Update(ctx, (&counter{name: "b"}).count); err != nil {
		t.Fatal(err)
	}
	link.Restore()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if v, _, err := near.Read(ctx); err != nil || fmt.Sprint(v.Value) != "map[a:6 b:1]" {
		t.Errorf("it counts %v, %v", v.Value, err)
	}
}

// A change that is refused, and a change whose context has ended, write nothing.
func TestValue_RefusedUpdatesWriteNothing(t *testing.T) {
	srv := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, refused := openCount(t, srv.OpenRemote()), errors.New("no")
	if _, err := c.Update(ctx, func(counts) (counts, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	if v, revision, err := c.Read(ctx); err != nil || revision != 0 || v.Value != nil {
		t.Errorf("it holds %v at %d, %v", v, revision, err)
	}
	srv.Stop()
	if _, err := c.Update(natstest.TimeoutContext(t, 300*time.Millisecond), (&counter{name: "a"}).count); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("without a server: %v", err)
	}
}

// A key that an operator deleted is treated as if it had never been written.
func TestValue_DeletedKeyIsNeverWritten(t *testing.T) {
	srv := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, own := openCount(t, srv.Store()), &counter{name: "a"}
	for range 2 {
		if v, err := c.Update(ctx, own.count); err != nil || v["a"] != 1 {
			t.Fatalf("it counts %v, %v", v, err)
		}
		kv, err := srv.Store().JetStream().KeyValue(ctx, "bucket")
		if err != nil {
			t.Fatal(err)
		}
		if err := kv.Delete(ctx, "key/1"); err != nil {
			t.Fatal(err)
		}
	}
}
