// Package runstate lists, removes and copies the state of runs on the servers.
package runstate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"loaderd/stream"
	"loaderd/stream/checkpoints"
)

// Run describes the state of a run on the servers.
type Run struct {
	Name string
	// Created is when the plan's stream was created. It is zero if no plan exists, as after an interrupted removal.
	Created time.Time
	// PlanBytes and CheckpointBytes are the sizes of plan and checkpoints.
	PlanBytes, CheckpointBytes uint64
}

// List returns all runs that have state on the servers, ordered by name. It changes nothing.
func List(ctx context.Context, s *stream.Store) ([]Run, error) {
	var all []Run
	s = s.Own()
	err := s.Retry(ctx, "list runs", func(ctx context.Context) error {
		found := map[string]Run{}
		plans, objects := s.Config().PlanStream("").Name, checkpoints.StreamName("")
		streams := s.JetStream().ListStreams(ctx)
		for info := range streams.Info() {
			name := info.Config.Name
			if run, ok := strings.CutPrefix(name, plans); ok && stream.ValidRun(run) == nil {
				k := found[run]
				k.Name, k.Created, k.PlanBytes = run, stream.Created(info), info.State.Bytes
				found[run] = k
			}
			if run, ok := strings.CutPrefix(name, objects); ok && stream.ValidRun(run) == nil {
				k := found[run]
				k.Name, k.CheckpointBytes = run, info.State.Bytes
				found[run] = k
			}
		}
		all = slices.SortedFunc(maps.Values(found), func(a, b Run) int { return cmp.Compare(a.Name, b.Name) })
		return streams.Err()
	})
	return all, err
}
