package messages

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/stream/conn"
)

// barrierLimit bounds a write that changes nothing; a stream without a majority stores none, and does not say so.
const barrierLimit = 2 * time.Second

// Barrier writes to a stream what changes nothing, and returns when a majority of its servers has taken it: a leader that was cut off, or that
// is none any more, cannot. It makes one attempt. The write is a purge of a subject that no stream has; a stream may deny purges.
func Barrier(ctx context.Context, c *conn.Client, st jetstream.Stream) error {
	return c.Attempt(ctx, barrierLimit, func(ctx context.Context) error {
		return st.Purge(ctx, jetstream.WithPurgeSubject("loaderd.barrier."+nuid.Next()))
	})
}

// Confirm is Barrier where this client may write one. Where it may not (its permissions, its account, or the stream, deny purges) it does nothing: then the word
// of a server that takes itself for the leader has to do. A server alone needs none.
func Confirm(ctx context.Context, c *conn.Client, st jetstream.Stream) error {
	if !c.Clustered() || c.MayNot(conn.OpPurge) {
		return nil
	}
	err := Barrier(ctx, c, st)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && !conn.Transient(err) {
		return nil
	}
	if c.Denied(ctx, conn.OpPurge, st.CachedInfo().Config.Name, err) {
		return nil
	}
	return err
}

// Led says whether a stream's state is told by a server that is its leader, or takes itself for it. Any other server of the cluster may tell
// what was long ago, while it knows of no leader.
func Led(info *jetstream.StreamInfo) bool {
	return info.Cluster == nil || info.Cluster.Name == "" || info.Cluster.Leader != ""
}
