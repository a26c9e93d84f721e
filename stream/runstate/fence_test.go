package runstate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/runstatetest"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
	"loaderd/shuffle"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/docstream"
	"loaderd/stream/retention"
)

const fenceTokenizer = "sha256:test"

func openDocuments(t *testing.T, s *stream.Store) {
	t.Helper()
	if _, err := docstream.Open(natstest.Context(t), s, docstream.Tokenization{}); err != nil {
		t.Fatal(err)
	}
}

// planner is a process that plans a run on a server.
type planner struct {
	*loader.Run
	cancel context.CancelFunc
	served chan error
}

// only is the only source of a run.
type only backend.Stream

// Open implements backend.Sources.
func (s only) Open(context.Context, string, mixture.Source) (backend.Stream, error) {
	return backend.Stream(s), nil
}

// startPlanner starts a planner over the store s. It returns once the planner has replayed the plan.
func startPlanner(t *testing.T, s *stream.Store, name string) *planner {
	t.Helper()
	ctx := natstest.Context(t)
	docs, err := docstream.Open(ctx, s, docstream.Tokenization{Fingerprint: fenceTokenizer, VocabSize: 1 << 20, End: -1})
	if err != nil {
		t.Fatal(err)
	}
	log := runstatetest.Open(t, s, "run")
	lowWatermarks, err := retention.Open(ctx, log, log.Documents())
	if err != nil {
		t.Fatal(err)
	}
	edges := backend.Backends{Sources: only{Documents: docs, LowWatermarks: lowWatermarks}, Plan: log,
		Log: slog.New(slog.DiscardHandler), Daemon: name}
	if edges.Checkpoints, err = checkpoints.Open(ctx, log); err != nil {
		t.Fatal(err)
	}
	c := runconfig.Config{Seed: 7, Tokenizer: runconfig.Tokenizer{Name: "test", Fingerprint: fenceTokenizer,
		VocabSize: 1 << 20,
		End:       -1},
		Packing: packonline.Config{Method: "bfd", Buckets: []int{16}, Atom: 1, Pool: 8, MaxAge: 64},
		Shuffle: shuffle.Config{Window: 6},
		Steps:   runconfig.Steps{Rows: 4, Last: runconfig.LastPad}, Attention: runconfig.AttentionDocument,
		Sources: map[string]mixture.Source{"docs": {Weight: 1, Epochs: 1}},
		Mix:     mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}}
	o := backend.Options{Ahead: 2, CacheBytes: 1 << 20, StallTimeout: time.Minute, CheckpointSteps: 3,
		Retention: backend.RetentionPurge}
	p := &planner{served: make(chan error, 1)}
	if p.Run, err = loader.Open(ctx, "run", c, o, edges); err != nil {
		t.Fatal(err)
	}
	serve, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.served <- p.Serve(serve) }()
	t.Cleanup(func() { _ = p.stop() })
	natstest.Eventually(t, "the plan is planned again", func() bool {
		select {
		case err := <-p.served:
			t.Fatal(err)
		default:
		}
		return !p.Stats().Replaying
	})
	return p
}

func (p *planner) stop() error {
	p.cancel()
	err := <-p.served
	p.served <- err
	return err
}

// steps reads n steps.
func (p *planner) steps(t *testing.T, from uint64, n int) (out []*plan.Step) {
	t.Helper()
	r, err := p.Join(state.RankID{World: 1}, from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range n {
		s, err := r.Next(natstest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func tokens(n int) (out []stream.Message) {
	for i := range n {
		ids := make([]int32, 1+i*7%15)
		out = append(out, stream.Message{Subject: "docs.test", ID: fmt.Sprint(i), ContentType: stream.TypeTokens,
			Tokenizer: fenceTokenizer,
			Data:      stream.AppendTokens(nil, ids)})
	}
	return out
}

// A planner that is idle at its limit loses leadership, documents are purged, and it is stopped later. It does not
// change what the other planner has stored, and the run continues.
func TestFences_PlannerStoppedAfterLosingLeadership(t *testing.T) {
	srv := natstest.Start(t)
	store := srv.Store()
	openDocuments(t, store)
	natstest.Publish(t, store, tokens(1500)...)
	idle := startPlanner(t, srv.OpenRemote(), "idle")
	idle.steps(t, 0, 2)
	other := startPlanner(t, srv.OpenRemote(), "other")
	want := other.steps(t, 0, 100)
	if _, err := other.Commit(natstest.Context(t), planrecord.DefaultJob, 95); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "documents are purged", func() bool { return other.Info().Oldest > 20 })
	if err := other.stop(); err != nil {
		t.Fatal(err)
	}
	checkpoints := runstatetest.Checkpoints(t, store, "run")
	stored, err := checkpoints.List(natstest.Context(t))
	if err != nil || len(stored) != 3 {
		t.Fatalf("stored are %v, %v", stored, err)
	}
	_, err = idle.Checkpoint(natstest.Context(t))
	if err == nil {
		t.Error("the idle one has stored a checkpoint")
	}
	var failed *fault.Error
	if err := idle.stop(); !errors.As(err, &failed) || failed.Reason != fault.NotLeading {
		t.Errorf("the idle one ended with %v", err)
	}
	if have, err := checkpoints.List(natstest.Context(t)); err != nil || !slices.Equal(have, stored) {
		t.Errorf("stored are %v, %v, want %v", have, err, stored)
	}
	next := startPlanner(t, srv.OpenRemote(), "next")
	if have := next.steps(t, 97, 6); !reflect.DeepEqual(have[:3], want[97:]) {
		t.Error("the run goes on with other steps")
	}
	natstest.Eventually(t, "only objects that count are left", func() bool {
		return len(runstatetest.Objects(t, store, "run")) == 3
	})
}

// The same on a cluster whose stream leaders change meanwhile.
func TestFences_IsolatedPlanner(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	store := c.Store(0)
	openDocuments(t, store)
	natstest.Publish(t, store, tokens(600)...)
	before, now := runstatetest.Checkpoints(t, c.Store(1), "run"), runstatetest.Checkpoints(t, c.Store(2), "run")
	lowWatermarkBefore, lowWatermarkNow := runstatetest.LowWatermarks(t, c.Store(1), "run"),
		runstatetest.LowWatermarks(t, c.Store(2), "run")
	ctx := natstest.Context(t)
	for _, step := range []uint64{3, 6, 9} {
		if _, err := before.Put(ctx, 2, step, []byte("of before")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lowWatermarkBefore.Advance(ctx, 2, 100); err != nil {
		t.Fatal(err)
	}
	c.Isolate(1)
	done := make(chan error, 2)
	go func() { _, err := before.Put(ctx, 2, 12, []byte("of before")); done <- err }()
	go func() { _, err := lowWatermarkBefore.Advance(ctx, 2, 500); done <- err }()
	if _, err := now.Claim(ctx, 7, false); err != nil {
		t.Fatal(err)
	}
	if first, err := lowWatermarkNow.Claim(ctx, 7, 1); err != nil || first != 100 {
		t.Fatalf("it needs documents from %d on: %v", first, err)
	}
	stored, err := now.Put(ctx, 7, 10, []byte("of now"))
	if err != nil {
		t.Fatal(err)
	}
	c.Heal()
	for range 2 {
		if err := <-done; !errors.Is(err, fault.ErrLeadershipLost) {
			t.Errorf("the one that was cut off: %v", err)
		}
	}
	if list, err := now.List(ctx); err != nil || !slices.Equal(list, stored) || len(list) != 3 || list[0].Step != 6 ||
		list[2].Step != 10 {
		t.Errorf("stored are %v, %v, want %v", list, err, stored)
	}
	for _, x := range stored {
		if _, err := now.Get(ctx, x.Name); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
	if first, err := lowWatermarkNow.Advance(ctx, 7, 100); err != nil || first != 100 {
		t.Errorf("the stream begins at %d, %v", first, err)
	}
}
