package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// clusterCopies are the copies of a new stream on a cluster, where the configuration leaves them open: with three one
// server may fail, and no acknowledged write is lost.
const clusterCopies = 3

// While a cluster starts, its servers do not know of all others yet and say that there are too few. That answer counts
// once it was given for fewFor, or for fewForSet where stream.replicas asks for so many copies: then one copy is no way
// out.
const (
	fewFor    = 5 * time.Second
	fewForSet = 30 * time.Second
)

// fewServers is what is known of a cluster that may have fewer servers than there should be copies.
type fewServers struct {
	mu    sync.Mutex
	since time.Time // of the first such answer in a row
}

// last notes one more answer that there are too few servers, and reports whether every answer since limit ago was the
// same.
func (f *fewServers) last(limit time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		f.since = time.Now()
	}
	return time.Since(f.since) >= limit
}

// clear notes an answer to the contrary.
func (f *fewServers) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Time{}
}

// alone says whether the only server is the one in this process, so that there is one copy of everything.
func (s *Store) alone() bool { return s.server != nil && !s.config.Clustered() }

// copies are those that a stream should have.
func (s *Store) copies() int {
	switch {
	case s.config.Replicas > 0:
		return s.config.Replicas
	case s.config.Clustered(), s.server == nil && s.Client.Clustered():
		return clusterCopies
	}
	return 1
}

// copied makes a stream by create, which gets the number of its copies.
//
// How many servers a cluster has is asked of JetStream by asking for so many copies: addresses tell nothing, one may
// stand for all servers, and not each of them keeps streams. The peers of an embedded cluster are three at least, and
// all will come.
func (s *Store) copied(create func(copies int) error) error {
	copies := s.copies()
	err := create(copies)
	switch {
	case !conn.TooFewServers(err):
		if err == nil && copies > 1 {
			s.few.clear()
		}
		return err
	case s.config.Clustered():
		return conn.Passing(err)
	case s.config.Replicas > 0 && s.few.last(fewForSet):
		return fmt.Errorf("%w: the cluster has fewer than %d servers (stream.replicas)", err, copies)
	case s.config.Replicas > 0 || !s.few.last(fewFor):
		return conn.Passing(err)
	}
	return create(1)
}

// replicate raises the copies of a cluster's stream to stream.replicas where that is set. It never lowers them: the
// owner of a cluster, or another daemon's configuration, may have asked for more. Where the server cannot keep so many,
// the log says so and the stream stays as it is.
func (s *Store) replicate(ctx context.Context, st jetstream.Stream) jetstream.Stream {
	present, want := st.CachedInfo().Config, s.config.Replicas
	switch {
	case s.alone():
		return st
	case want == 0:
		s.tellFew(present)
		return st
	case present.Replicas >= want:
		if present.Replicas > want {
			s.log.Info("a stream keeps more copies than stream.replicas asks for; they are left", "stream", present.Name,
				"replicas", present.Replicas, "stream.replicas", want)
		}
		return st
	}
	before := present.Replicas
	present.Replicas = want
	updated, err := s.JetStream().UpdateStream(ctx, present)
	if err != nil {
		s.log.Warn("a stream has fewer copies than stream.replicas asks for, and they cannot be raised: add servers, or "+
			"do it yourself (nats stream edit --replicas)",
			"stream", present.Name, "replicas", before, "stream.replicas", want, "error", err)
		return st
	}
	s.log.Info("the copies of a stream were raised to stream.replicas", "stream", present.Name, "from", before,
		"replicas", want)
	return updated
}

// tellFew warns of a stream that has fewer copies than one should have on a cluster.
func (s *Store) tellFew(present jetstream.StreamConfig) {
	if want := s.copies(); present.Replicas < want {
		s.log.Warn("a stream on a cluster has too few copies: it stands still while a server that keeps one is down, and "+
			"what it holds can be lost with that "+
			"server's disk: see that the cluster has three servers, and set stream.replicas to 3, which raises the copies",
			"stream", present.Name,
			"replicas", present.Replicas, "want", want)
	}
}

// replicateBacking is replicate for the stream behind a bucket or an object store.
func (s *Store) replicateBacking(ctx context.Context, name string) error {
	if s.alone() {
		return nil
	}
	st, err := s.JetStream().Stream(ctx, name)
	if err == nil {
		s.replicate(ctx, st)
	}
	return err
}
