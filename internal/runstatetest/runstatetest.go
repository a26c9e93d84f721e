// Package runstatetest opens the stored state of a run, for tests.
package runstatetest

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
)

// Open opens the plan of a run, as another process would.
func Open(t testing.TB, s *stream.Store, run string) *planlog.Log {
	t.Helper()
	l, err := planlog.Open(natstest.TimeoutContext(t, time.Minute), s, run)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Checkpoints opens the checkpoints of a run, as another process would.
func Checkpoints(t testing.TB, s *stream.Store, run string) *checkpoints.Store {
	t.Helper()
	c, err := checkpoints.Open(natstest.TimeoutContext(t, time.Minute), Open(t, s, run))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// LowWatermarks opens the low watermark of a run, as another process would.
func LowWatermarks(t testing.TB, s *stream.Store, run string) *retention.LowWatermarks {
	t.Helper()
	f, err := retention.Open(natstest.TimeoutContext(t, time.Minute), Open(t, s, run), s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Objects returns the names of all checkpoints in the object store of a run, valid or not.
func Objects(t testing.TB, s *stream.Store, run string) (names []string) {
	t.Helper()
	ctx := natstest.TimeoutContext(t, time.Minute)
	objects, err := s.Own().JetStream().ObjectStore(ctx, checkpoints.ObjectStoreName(run))
	if err != nil {
		t.Fatal(err)
	}
	infos, err := objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Fatal(err)
	}
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}
