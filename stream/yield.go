package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Yield hands those of these streams that this process's own server leads over to other members of its cluster, and returns their names.
// When the process dies and its server with it, they need no election, which takes seconds. Without such a server it does nothing. Errors
// say which streams stay where they are.
func (s *Store) Yield(ctx context.Context, streams ...string) (moved []string, err error) {
	if s.server == nil || !s.config.Clustered() {
		return nil, nil
	}
	var failed []error
	for _, name := range streams {
		to, err := s.yieldTo(ctx, name)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("hand over stream %s: %w", name, err))
		case to != "":
			moved = append(moved, name)
		}
	}
	return moved, errors.Join(failed...)
}

// yieldTo hands over one stream and returns which server leads it next; none where another one led it already.
func (s *Store) yieldTo(ctx context.Context, name string) (to string, err error) {
	st, err := s.JetStream().Stream(ctx, name)
	if err != nil {
		return "", err
	}
	if to = heir(st.CachedInfo().Cluster, s.Conn().ConnectedServerName()); to == "" {
		return "", nil
	}
	return to, s.MoveLeader(ctx, name, to)
}

// deadAfter is since when a leader has not heard of a server that may be dead; servers say something every second. It may count as current
// for much longer, and a stream that is handed over to it has no leader for seconds.
const deadAfter = 2500 * time.Millisecond

// heir chooses who leads a stream in place of a server: one of those that have all of it. It is empty where another one leads already, or
// where there is none.
func heir(c *jetstream.ClusterInfo, own string) string {
	if c == nil || c.Leader != own {
		return ""
	}
	var ready []string
	for _, r := range c.Replicas {
		if r.Current && !r.Offline && r.Active < deadAfter {
			ready = append(ready, r.Name)
		}
	}
	if len(ready) == 0 {
		return ""
	}
	return ready[rand.IntN(len(ready))]
}
