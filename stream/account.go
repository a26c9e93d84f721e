package stream

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// accountStorage caches the storage of a JetStream account, as the server last reported it.
type accountStorage struct {
	mu          sync.Mutex
	requestedAt time.Time
	used, limit int64
}

const (
	// accountInterval is the interval of requests to the server for the storage of an account.
	accountInterval = 5 * time.Second
	// accountTimeout bounds the wait for the response.
	accountTimeout = 2 * time.Second
)

// AccountStorage returns how many bytes the streams of the documents' account hold, and how many they may hold
// together. The limit is 0 if it is unlimited or unknown. The server inside a daemon sets no limit.
func (s *Store) AccountStorage(ctx context.Context) (used, limit int64) {
	if s.server != nil {
		return 0, 0
	}
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.requestedAt) < accountInterval {
		return a.used, a.limit
	}
	a.requestedAt, a.used, a.limit = time.Now(), 0, 0
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	info, err := s.JetStream().AccountInfo(ctx)
	if err != nil {
		return 0, 0
	}
	tier := info.Tier
	if t, tiered := info.Tiers[fmt.Sprintf("R%d", max(1, s.config.Replicas))]; tiered {
		tier = t
	}
	a.used, a.limit = int64(tier.Store), max(0, tier.Limits.MaxStore)
	return a.used, a.limit
}
