package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// made are the streams that a Store has created.
type made struct {
	mu    sync.Mutex
	names []string
}

func (m *made) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = append(m.names, name)
}

func (m *made) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.names
	m.names = nil
	return names
}

// Withdraw removes the streams that this Store has created and that have never held anything: what a start that fails
// would leave behind. What was there before, or has come to hold something, stays. On a cluster all stays: there other
// daemons start at the same time and have opened what this one has made, and a server that is behind may call a stream
// empty that is not.
func (s *Store) Withdraw(ctx context.Context) error {
	if s.Clustered() {
		return nil
	}
	var failed error
	if s.own != nil && s.own.Client != nil {
		failed = s.own.Withdraw(ctx)
	}
	for _, name := range slices.Backward(s.made.take()) {
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
