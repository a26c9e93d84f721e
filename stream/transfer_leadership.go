package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// TransferLeadership moves the leaders of these streams from this process's own server to other members of its cluster,
// and returns the names of the moved streams. If this process and its server fail together, these streams need no
// election, which takes seconds. The preferred new leader is the server that leads the first of the streams, if it is
// up to date, so that a failure of the third server affects no leader. Without an embedded server in a cluster Yield
// does nothing. The error names the streams that could not be moved.
func (s *Store) TransferLeadership(ctx context.Context, streams ...string) (moved []string, err error) {
	if s.server == nil || !s.config.Clustered() {
		return nil, nil
	}
	own, together := s.Conn().ConnectedServerName(), ""
	var failed []error
	for _, name := range streams {
		in := s.ForStream(name)
		st, err := in.JetStream().Stream(ctx, name)
		if err != nil {
			failed = append(failed, fmt.Errorf("find the leader of stream %s: %w", name, err))
			continue
		}
		c := st.CachedInfo().Cluster
		if c == nil {
			continue
		}
		to := c.Leader
		if to == own {
			if to = chooseLeader(c, together); to == "" {
				continue
			}
			if err := MoveLeader(ctx, in.Client, name, to); err != nil {
				failed = append(failed, fmt.Errorf("hand stream %s over to %s: %w", name, to, err))
				continue
			}
			moved = append(moved, name)
			in.awaitLeader(ctx, name, own)
		}
		together = cmp.Or(together, to)
	}
	return moved, errors.Join(failed...)
}

// awaitLeader waits until a server other than before leads a stream, or until ctx ends. A move takes about 60 ms, in
// which requests are lost.
func (s *Store) awaitLeader(ctx context.Context, name, before string) {
	const look, pause = 100 * time.Millisecond, 5 * time.Millisecond
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, look)
		st, err := s.JetStream().Stream(attempt, name)
		cancel()
		if err == nil && st.CachedInfo().Cluster != nil && st.CachedInfo().Cluster.Leader != "" &&
			st.CachedInfo().Cluster.Leader != before {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// replicaTimeout is how long a leader may have received nothing from a replica before that replica counts as down.
// Servers send every second. A server that is down may be listed as current for much longer, and a stream that is
// handed over to it has no leader for seconds.
const replicaTimeout = 2500 * time.Millisecond

// chooseLeader returns a replica that can become the stream's leader: one that is up to date, preferably wanted. It is
// empty if none exists.
func chooseLeader(c *jetstream.ClusterInfo, wanted string) string {
	var ready []string
	for _, r := range c.Replicas {
		if r.Current && !r.Offline && r.Active < replicaTimeout {
			ready = append(ready, r.Name)
		}
	}
	switch {
	case len(ready) == 0:
		return ""
	case slices.Contains(ready, wanted):
		return wanted
	}
	return ready[rand.IntN(len(ready))]
}

// MoveLeader requests that the leader of a stream hand over to another of the stream's servers. It makes one attempt.
func MoveLeader(ctx context.Context, c *conn.Client, name, to string) error {
	type placement struct {
		Preferred string `json:"preferred"`
	}
	question, err := json.Marshal(struct {
		Placement placement `json:"placement"`
	}{placement{to}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.ReadTimeout())
	defer cancel()
	reply, err := c.Conn().RequestWithContext(ctx, c.API("STREAM.LEADER.STEPDOWN", name), question)
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return conn.AsTransient(fmt.Errorf("read the answer of stream %s: %w", name, err))
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}
