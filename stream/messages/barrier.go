package messages

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/stream/conn"
)

// barrierTimeout bounds a write that changes nothing. A stream without a majority does not respond.
const barrierTimeout = 2 * time.Second

// Barrier makes a write that changes nothing, and returns when a majority of the stream's servers has stored it. A
// server that is cut off, or that no longer leads the stream, cannot do that. It makes one attempt. The write is a
// purge of a subject that no stream has; a stream may deny purges.
func Barrier(ctx context.Context, c *conn.Client, st jetstream.Stream) error {
	return c.Attempt(ctx, barrierTimeout, func(ctx context.Context) error {
		return st.Purge(ctx, jetstream.WithPurgeSubject("loaderd.barrier."+nuid.Next()))
	})
}

// TryBarrier is Barrier if this client may write. If permissions, account or stream deny purges, it does nothing. The
// caller then accepts the response of a server that considers itself the leader. A single server needs no barrier.
func TryBarrier(ctx context.Context, c *conn.Client, st jetstream.Stream) error {
	if !c.Clustered() || c.WasDenied(conn.OpPurge) {
		return nil
	}
	err := Barrier(ctx, c, st)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && !conn.IsTransient(err) {
		return nil
	}
	if c.CheckDenied(ctx, conn.OpPurge, st.CachedInfo().Config.Name, err) {
		return nil
	}
	return err
}

// HasLeader reports whether a stream's state is from a server that leads it, or considers itself the leader. Another
// server of the cluster may return stale state while it has no leader.
func HasLeader(info *jetstream.StreamInfo) bool {
	return info.Cluster == nil || info.Cluster.Name == "" || info.Cluster.Leader != ""
}
