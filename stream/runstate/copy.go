package runstate

import (
	"context"

	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/retention"
)

// Copy copies the values of a run in key-value buckets to other servers: its low watermark over the document stream,
// with the sequence below which documents may be purged, and the manifest of its checkpoints. They refer to creation
// times of streams, which copies of these streams keep (stream.Created). The lease is not copied, because no daemon
// leads the run there.
func Copy(ctx context.Context, from, to *stream.Store, run string) error {
	if err := retention.Copy(ctx, from, to, run); err != nil {
		return err
	}
	return checkpoints.Copy(ctx, from, to, run)
}
