package runstate

import (
	"context"

	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/checkpoints"
	"loaderd/stream/lease"
	"loaderd/stream/retention"
)

// NewElector makes this process a candidate to lead a run. While it leads, other servers than its own lead the
// streams that a takeover needs: those of the plan, the checkpoints, the documents, the leases, the low
// watermarks and the manifests.
func NewElector(ctx context.Context, s *stream.Store, run string, self lease.LeaderInfo) (*lease.Elector, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	c := s.Config()
	handOver := []string{c.PlanStream(run).Name, checkpoints.StreamName(run), c.Name}
	for _, bucket := range []string{lease.Bucket, retention.Bucket, checkpoints.Bucket} {
		name, _ := casvalue.KeyAddress(bucket, run)
		handOver = append(handOver, name)
	}
	return lease.NewElector(ctx, s, run, self, handOver...)
}
