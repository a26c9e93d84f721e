package loader_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/state"
)

// A follower receives its documents from the leader, and reads from the stream what the leader does not send. Its
// batches are the same for every answer of the leader.
func TestExchange_FollowerReturnsSameBatches(t *testing.T) {
	for _, x := range []struct {
		name     string
		change   func(answer []byte) ([]byte, error)
		received bool // some documents
		failed   bool // some requests
	}{
		{"whole", nil, true, false},
		{"none", func([]byte) ([]byte, error) { return nil, nil }, false, true},
		{"late", func([]byte) ([]byte, error) { return nil, errors.New("timeout") }, false, true},
		{"cut", func(b []byte) ([]byte, error) { return b[:len(b)-1], nil }, false, true},
		{"longer", func(b []byte) ([]byte, error) { return append(slices.Clone(b), 0), nil }, false, true},
		{"flipped", func(b []byte) ([]byte, error) {
			b = slices.Clone(b)
			b[len(b)/2] ^= 1
			return b, nil
		}, false, true},
		{"JSON of an older daemon", func([]byte) ([]byte, error) { return []byte(`{"nobody":true}`), nil }, false, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, cluster := newFixture(config("bfd")), newTestCluster()
				w.options.CacheBytes = 64 << 20
				w.docs.lengths(someLengths(5, 600)...)
				leader, stop := w.join(t, cluster, "leader")
				synctest.Wait()
				follower, stopFollower := w.join(t, cluster, "follower")
				if _, err := leader.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
				cluster.documents = x.change
				time.Sleep(time.Second) // the follower receives a report of the leader
				place := state.RankID{World: 1}
				var want, got []*assembly.Batch
				done := make(chan struct{})
				go func() { defer close(done); want = read(t, leader, place, 0, 0) }()
				got = read(t, follower, state.RankID{Job: "other", World: 1}, 0, 0)
				<-done
				requireSame(t, got, want)
				sent, e := leader.Stats().Exchange, follower.Stats().Exchange
				if (e.Received > 0) != x.received || (e.Failed > 0) != x.failed || x.received && sent.Sent == 0 {
					t.Errorf("the follower: %+v, the leader: %+v", e, sent)
				}
				if reads := w.docs.fetched; x.received && reads > 0 || !x.received && reads == 0 {
					t.Errorf("%d documents are read from the stream", reads)
				}
				if err := errors.Join(stopFollower(), stop()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// requireSame fails unless the batches are equal.
func requireSame(t *testing.T, got, want []*assembly.Batch) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i := range got {
		if !slices.Equal(tokensOf(t, got[i]), tokensOf(t, want[i])) {
			t.Fatalf("step %d differs", i)
		}
	}
}

// Without its leader a follower reads planned steps from the stream.
func TestExchange_LeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster := newFixture(config("bfd")), newTestCluster()
		w.docs.lengths(someLengths(5, 600)...)
		leader, stop := w.join(t, cluster, "leader")
		if _, err := leader.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := read(t, leader, state.RankID{World: 1}, 0, 0)
		follower, stopFollower := w.join(t, cluster, "follower", func(e *backend.Backends) {
			e.Elector = neverLeads{cluster}
		})
		if err := stop(); err != nil {
			t.Error(err)
		}
		requireSame(t, read(t, follower, state.RankID{World: 1}, 0, len(want)), want)
		if e := follower.Stats().Exchange; e.Received > 0 || w.docs.fetched == 0 {
			t.Errorf("%+v, %d documents are read from the stream", e, w.docs.fetched)
		}
		if err := stopFollower(); err != nil {
			t.Error(err)
		}
	})
}
