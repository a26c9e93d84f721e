package daemon

import (
	"context"
	"fmt"
	"sync"

	"loaderd/loader/backend"
	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/deadletter"
	"loaderd/stream/docstream"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
)

// sourceOpener opens the streams of a run. It implements backend.Sources.
type sourceOpener struct {
	store  *stream.Store
	plan   *planlog.Log
	tokens docstream.Tokenization
	config runconfig.Config // its sources share the buffer
	dead   *deadletter.Tallies

	mu       sync.Mutex
	openLogs []*docstream.Log
}

// Open implements backend.Sources.
func (s *sourceOpener) Open(ctx context.Context, name string, c mixture.Source) (backend.Stream, error) {
	store, tokens := s.store.Source(name, len(s.config.Sources)), s.tokens
	tokens.Hints = s.config.SourcePacking(c).SimilarityConfig()
	docs, err := docstream.Open(ctx, store, tokens)
	if err != nil {
		return backend.Stream{}, err
	}
	lowWatermarks, err := retention.Open(ctx, s.plan, store)
	if err != nil {
		return backend.Stream{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if store != s.store { // it may have been added to a running run
		if err := s.store.PermitProducers(name); err != nil {
			return backend.Stream{}, fmt.Errorf("allow producers to publish to source %s: %w", name, err)
		}
	}
	s.openLogs = append(s.openLogs, docs)
	s.dead.Add(store, name)
	return backend.Stream{Documents: docs, LowWatermarks: lowWatermarks, Stored: docstream.Stored(docs)}, nil
}

// DeadLetters returns the dead letters of all sources.
func (s *sourceOpener) DeadLetters() (all deadletter.Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, docs := range s.openLogs {
		one := docs.DeadLetters()
		all.Stored += one.Stored
		all.Failed += one.Failed
		all.Waiting += one.Waiting
		all.Dropped += one.Dropped
	}
	return all
}
