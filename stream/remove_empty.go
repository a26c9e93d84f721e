package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// createdStreams records the streams that a Store has created.
type createdStreams struct {
	mu    sync.Mutex
	names []string
}

func (m *createdStreams) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = append(m.names, name)
}

func (m *createdStreams) removeAll() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.names
	m.names = nil
	return names
}

// RemoveEmptyStreams removes the streams that this Store has created and that have never held a message, which a failed
// start would leave behind. Streams that existed before, or that hold messages, are kept. On a cluster all
// streams are kept: other daemons that start at the same time may have opened them, and a lagging server may
// report a stream as empty that is not.
func (s *Store) RemoveEmptyStreams(ctx context.Context) error {
	if s.Clustered() {
		return nil
	}
	var failed error
	if s.own != nil && s.own.Client != nil {
		failed = s.own.RemoveEmptyStreams(ctx)
	}
	for _, name := range slices.Backward(s.createdStreams.removeAll()) {
		err := s.Retry(ctx, "remove empty stream "+name, func(ctx context.Context) error {
			st, err := s.JetStream().Stream(ctx, name)
			if err == nil && st.CachedInfo().State.LastSeq == 0 {
				err = s.JetStream().DeleteStream(ctx, name)
			}
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("withdraw: %w", err))
		}
	}
	return failed
}
