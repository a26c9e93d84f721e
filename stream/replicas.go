package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// clusterReplicas is the default number of replicas of a new stream on a cluster. With three, one server may fail
// without loss of an acknowledged write.
const clusterReplicas = 3

// While a cluster starts, its servers have not discovered all members yet and report too few servers. The report counts
// after it has been consistent for fewServersTime. If stream.replicas requires that many replicas, so that one replica
// is not an alternative, the limit is fewServersTimeConfigured.
const (
	fewServersTime           = 5 * time.Second
	fewServersTimeConfigured = 30 * time.Second
)

// fewServers tracks reports that a cluster has fewer servers than required replicas.
type fewServers struct {
	mu    sync.Mutex
	since time.Time // first of the consecutive reports
}

// record records another report of too few servers, and returns whether all reports since limit ago were the same.
func (f *fewServers) record(limit time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		f.since = time.Now()
	}
	return time.Since(f.since) >= limit
}

// clear records a report to the contrary.
func (f *fewServers) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Time{}
}

// isStandalone reports whether the only server is the one in this process, so that streams have one replica.
func (s *Store) isStandalone() bool { return s.server != nil && !s.config.Clustered() }

// replicaCount returns the number of replicas that a stream should have.
func (s *Store) replicaCount() int {
	switch {
	case s.config.Replicas > 0:
		return s.config.Replicas
	case s.config.Clustered(), s.server == nil && s.Client.Clustered():
		return clusterReplicas
	}
	return 1
}

// createReplicated creates a stream by create, which receives the number of replicas.
//
// JetStream determines the number of servers by a request for that many replicas. Addresses do not show it: one may
// represent all servers, and some servers store no streams. The peers of an embedded cluster are at least three, and
// all of them will start.
func (s *Store) createReplicated(create func(copies int) error) error {
	copies := s.replicaCount()
	err := create(copies)
	switch {
	case !conn.IsTooFewServers(err):
		if err == nil && copies > 1 {
			s.fewServers.clear()
		}
		return err
	case s.config.Clustered():
		return conn.AsTransient(err)
	case s.config.Replicas > 0 && s.fewServers.record(fewServersTimeConfigured):
		return fmt.Errorf("%w: the cluster has fewer than %d servers (stream.replicas)", err, copies)
	case s.config.Replicas > 0 || !s.fewServers.record(fewServersTime):
		return conn.AsTransient(err)
	}
	return create(1)
}

// replicate raises the replicas of a cluster's stream to stream.replicas if that is set. It never lowers them,
// because the owner of a cluster or another daemon's configuration may require more. If the server cannot store that
// many, replicate logs this and leaves the stream unchanged.
func (s *Store) replicate(ctx context.Context, st jetstream.Stream) jetstream.Stream {
	present, want := st.CachedInfo().Config, s.config.Replicas
	switch {
	case s.isStandalone():
		return st
	case want == 0:
		s.warnTooFewReplicas(present)
		return st
	case present.Replicas >= want:
		if present.Replicas > want {
			s.log.Info("stream has more replicas than stream.replicas; they are kept", "stream", present.Name,
				"replicas", present.Replicas, "stream.replicas", want)
		}
		return st
	}
	before := present.Replicas
	present.Replicas = want
	updated, err := s.JetStream().UpdateStream(ctx, present)
	if err != nil {
		s.log.Warn("stream has fewer replicas than stream.replicas, and they cannot be raised: add servers, or raise them "+
			"with nats stream edit --replicas",
			"stream", present.Name, "replicas", before, "stream.replicas", want, "error", err)
		return st
	}
	s.log.Info("raised the replicas of a stream to stream.replicas", "stream", present.Name, "from", before,
		"replicas", want)
	return updated
}

// warnTooFewReplicas logs a warning about a stream that has fewer replicas than it should have on a cluster.
func (s *Store) warnTooFewReplicas(present jetstream.StreamConfig) {
	if want := s.replicaCount(); present.Replicas < want {
		s.log.Warn("stream of a cluster has too few replicas: it is unavailable while the server of a replica is down, "+
			"and a lost "+
			"disk can lose its messages. Run three servers, and set stream.replicas to 3, which raises the replicas",
			"stream", present.Name,
			"replicas", present.Replicas, "want", want)
	}
}

// replicateBacking is replicate for the stream behind a bucket or an object store.
func (s *Store) replicateBacking(ctx context.Context, name string) error {
	if s.isStandalone() {
		return nil
	}
	st, err := s.JetStream().Stream(ctx, name)
	if err == nil {
		s.replicate(ctx, st)
	}
	return err
}
