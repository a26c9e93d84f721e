package conn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Clustered says whether the servers are members of a cluster: what one of them answers may be behind what the others have agreed on. Once
// it was one it stays one, also while there is no connection.
func (c *Client) Clustered() bool {
	if c.nc.ConnectedClusterName() != "" {
		c.clustered.Store(true)
	}
	return c.clustered.Load()
}

// barrierLimit bounds a write that changes nothing; a stream without a majority stores none, and does not say so.
const barrierLimit = 2 * time.Second

// Barrier writes to a stream what changes nothing, and returns when a majority of its servers has taken it: a leader that was cut off, or that
// is none any more, cannot. It makes one attempt. The write is a purge of a subject that no stream has; a stream may deny purges.
func (c *Client) Barrier(ctx context.Context, st jetstream.Stream) error {
	return c.Attempt(ctx, barrierLimit, func(ctx context.Context) error {
		return st.Purge(ctx, jetstream.WithPurgeSubject("loaderd.barrier."+nuid.Next()))
	})
}

// Confirm is Barrier where this client may write one. Where it may not (its permissions, its account, or the stream, deny purges) it does nothing: then the word
// of a server that takes itself for the leader has to do. A server alone needs none.
func (c *Client) Confirm(ctx context.Context, st jetstream.Stream) error {
	if !c.Clustered() || c.mayNot(opPurge) {
		return nil
	}
	err := c.Barrier(ctx, st)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && !Transient(err) {
		return nil
	}
	if c.denied(ctx, opPurge, st.CachedInfo().Config.Name, err) {
		return nil
	}
	return err
}

// Led says whether a stream's state is told by a server that is its leader, or takes itself for it. Any other server of the cluster may tell
// what was long ago, while it knows of no leader.
func Led(info *jetstream.StreamInfo) bool {
	return info.Cluster == nil || info.Cluster.Name == "" || info.Cluster.Leader != ""
}

// MoveLeader asks the leader of a stream to hand that over to another of the stream's servers. It makes one attempt.
func (c *Client) MoveLeader(ctx context.Context, name, to string) error {
	type placement struct {
		Preferred string `json:"preferred"`
	}
	question, err := json.Marshal(struct {
		Placement placement `json:"placement"`
	}{placement{to}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.silence())
	defer cancel()
	reply, err := c.nc.RequestWithContext(ctx, c.API("STREAM.LEADER.STEPDOWN", name), question)
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return Passing(fmt.Errorf("read the answer of stream %s: %w", name, err))
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}
