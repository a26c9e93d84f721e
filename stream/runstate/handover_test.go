package runstate_test

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/lease"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
	"loaderd/stream/runstate"
	"loaderd/stream/server"
)

// embeddedCluster opens three stores whose own servers are a cluster.
func embeddedCluster(t *testing.T) []*stream.Store {
	t.Helper()
	peers := []string{natstest.FreeAddress(t), natstest.FreeAddress(t), natstest.FreeAddress(t)}
	secret := natstest.ClusterSecret(t)
	stores, opening := make([]*stream.Store, len(peers)), sync.WaitGroup{}
	for i, peer := range peers {
		c := natstest.Config(t)
		c.Replicas, c.Cluster = len(peers), server.Cluster{Name: "corpus", Listen: peer, Peers: peers,
			SecretFile: secret}
		opening.Go(func() {
			s, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Errorf("open member %d: %v", i, err)
				return
			}
			stores[i] = s
		})
	}
	opening.Wait()
	t.Cleanup(func() {
		var closing sync.WaitGroup
		for _, s := range stores {
			if s != nil {
				closing.Go(func() { _ = s.Close() })
			}
		}
		closing.Wait()
	})
	if slices.Contains(stores, nil) {
		t.FailNow()
	}
	return stores
}

// leaderOf returns the server that leads a stream; empty while the stream has no leader.
func leaderOf(t *testing.T, s *stream.Store, name string) string {
	st, err := s.ForStream(name).JetStream().Stream(natstest.TimeoutContext(t, 2*time.Second), name)
	if err != nil || st.CachedInfo().Cluster == nil {
		return ""
	}
	return st.CachedInfo().Cluster.Leader
}

// The leader's own server hands over the streams that the next leader needs, because both may fail together.
func TestElector_HandsOverStreams(t *testing.T) {
	stores := embeddedCluster(t)
	own := stores[0].Conn().ConnectedServerName()
	ctx := natstest.TimeoutContext(t, time.Minute)
	plan, err := planlog.Open(ctx, stores[0], "run")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoints.Open(ctx, plan); err != nil {
		t.Fatal(err)
	}
	if _, err := retention.Open(ctx, plan, plan.Documents()); err != nil {
		t.Fatal(err)
	}
	elector, err := runstate.NewElector(ctx, stores[0], "run", lease.NewLeaderInfo("host", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = elector.Close() })
	streams := []string{"PLAN_run", "OBJ_CHECKPOINTS_run", "DOCS", "KV_loaderd_leads", "KV_loaderd_low_watermarks",
		"KV_loaderd_checkpoints"}
	for _, name := range streams {
		natstest.Eventually(t, "its own server leads "+name, func() bool {
			leader := leaderOf(t, stores[1], name)
			if leader == "" || leader == own {
				return leader == own
			}
			_ = stream.MoveLeader(natstest.TimeoutContext(t, time.Second), stores[1].ForStream(name).Client, name, own)
			return false
		})
	}
	held, err := elector.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stop, appended := make(chan struct{}), make(chan error, 1)
	go func() { // appends continuously, as the leader does
		for last := uint64(0); ; last++ {
			select {
			case <-stop:
				appended <- nil
				return
			default:
			}
			if err := errors.Join(held.Verify(ctx), plan.Append(ctx, last, []byte("record"))); err != nil {
				appended <- err
				return
			}
		}
	}()
	for _, name := range streams {
		natstest.Eventually(t, "another server leads "+name, func() bool {
			leader := leaderOf(t, stores[1], name)
			return leader != "" && leader != own
		})
	}
	close(stop)
	if err := <-appended; err != nil {
		t.Error(err)
	}
	if err := held.Verify(ctx); err != nil {
		t.Errorf("Verify = %v", err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
}
