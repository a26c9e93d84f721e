package stream

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// alone says whether the only server is the one in this process, so that there is one copy of everything.
func (s *Store) alone() bool { return s.server != nil && !s.config.Clustered() }

// replicate raises the copies of a cluster's stream to stream.replicas. It never lowers them: the owner of a cluster, or another
// daemon's configuration, may have asked for more. Where the server cannot keep so many, the log says so and the stream stays as it is.
func (s *Store) replicate(ctx context.Context, st jetstream.Stream) jetstream.Stream {
	present, want := st.CachedInfo().Config, s.config.Replicas
	if s.alone() || present.Replicas >= want {
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
		s.log.Warn("a stream has fewer copies than stream.replicas asks for, and they cannot be raised: add servers, or do it yourself (nats stream edit --replicas)",
			"stream", present.Name, "replicas", before, "stream.replicas", want, "error", err)
		return st
	}
	s.log.Info("the copies of a stream were raised to stream.replicas", "stream", present.Name, "from", before, "replicas", want)
	return updated
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
