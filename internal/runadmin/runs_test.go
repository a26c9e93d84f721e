package runadmin_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/runadmin"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/docstream"
	"loaderd/stream/lease"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
)

func TestMain(m *testing.M) { natstest.VerifyTestMain(m) }

const documents = 120

// byBytes is a tokenizer that returns each byte as a token.
type byBytes struct{}

func (byBytes) EncodePart(dst []int32, text []byte, _, _ bool) []int32 {
	for _, b := range text {
		dst = append(dst, int32(b))
	}
	return dst
}

var tokenizing = docstream.Tokenization{NewEncoder: func() docstream.Encoder {
	return byBytes{}
}, Fingerprint: "f", VocabSize: 256, End: -1}

func config(method string) runconfig.Config {
	return runconfig.Config{Seed: 7, Tokenizer: runconfig.Tokenizer{Name: "bytes", Fingerprint: "f",
		VocabSize: 256, End: -1},
		Packing: packonline.Config{Method: method, Buckets: []int{64}, Atom: 1, Pool: 8, MaxAge: 64},
		Steps:   runconfig.Steps{Rows: 2, Last: runconfig.LastPad}, Attention: runconfig.AttentionDocument,
		Sources: map[string]mixture.Source{"docs": {Weight: 1, Epochs: 1}},
		Mix:     mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}}
}

// published starts a server with documents.
func published(t *testing.T) *stream.Store {
	t.Helper()
	store := natstest.Start(t).Store()
	if _, err := docstream.Open(natstest.Context(t), store, tokenizing); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, store, natstest.Documents(1, documents)...)
	return store
}

// edges returns the backends of a run.
func edges(t *testing.T, store *stream.Store, run string) (e backend.Backends) {
	t.Helper()
	ctx := natstest.Context(t)
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	e.Log = slog.New(slog.DiscardHandler)
	log, err := planlog.Open(ctx, store, run)
	fail(err)
	e.Plan, e.Keyed = log, log.Keyed()
	e.Checkpoints, err = checkpoints.Open(ctx, log)
	fail(err)
	lowWatermarks, err := retention.Open(ctx, log, log.Documents())
	fail(err)
	docs, err := docstream.OpenReadOnly(ctx, store, tokenizing)
	fail(err)
	e.Sources = only{Documents: docs, LowWatermarks: lowWatermarks}
	return e
}

// only is the only source of a run.
type only backend.Stream

// Open implements backend.Sources.
func (s only) Open(context.Context, string, mixture.Source) (backend.Stream, error) {
	return backend.Stream(s), nil
}

// start runs a daemon's part in a run until stop is called.
func start(t *testing.T, store *stream.Store, run string, c runconfig.Config) (r *loader.Run, stop func()) {
	t.Helper()
	return startOver(t, run, c, edges(t, store, run))
}

// startOver is start with existing backends.
func startOver(t *testing.T, run string, c runconfig.Config, e backend.Backends) (r *loader.Run, stop func()) {
	t.Helper()
	ctx := natstest.Context(t)
	r, err := loader.Open(ctx, run, c, backend.Options{Ahead: 4, CacheBytes: 1 << 20, StallTimeout: time.Minute,
		CheckpointSteps: 4},
		e)
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- r.Serve(serving) }()
	return r, func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// read returns the next n steps of a run, starting at a step, or fewer if the run ends.
func read(t *testing.T, r *loader.Run, from uint64, n int) (steps []*plan.Step) {
	t.Helper()
	ctx := natstest.Context(t)
	reader, err := r.Join(state.RankID{World: 1}, from)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for len(steps) < n {
		s, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return steps
		}
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps
}

// serve plans a run to its end and returns its steps.
func serve(t *testing.T, store *stream.Store, run string, c runconfig.Config) []*plan.Step {
	t.Helper()
	r, stop := start(t, store, run, c)
	defer stop()
	if _, err := r.Seal(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	return read(t, r, 0, math.MaxInt)
}

// A fork contains the documents that its parent's earlier steps do not, and an audit of both runs succeeds.
func TestFork_ContainsRemainingDocuments(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	parent := serve(t, store, "parent", config("bfd"))
	const step = 5
	forked, from, err := runadmin.Fork(ctx, store, "parent", step, "child", config("concat"), tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	if forked.Run != "child" || from.Run != "parent" || forked.Config.Packing.Method != "concat" ||
		from.Config.Packing.Method != "bfd" {
		t.Errorf("%s of %s, packed by %s of %s", forked.Run, from.Run, forked.Config.Packing.Method,
			from.Config.Packing.Method)
	}
	child := serve(t, store, "child", config("concat"))
	seen := map[packonline.Piece]int{} // tokens, as pieces of one token
	for _, s := range append(parent[:step:step], child...) {
		for _, p := range slices.Concat(s.Rows...) {
			for k := range p.Length {
				seen[packonline.Piece{Doc: p.Doc, Start: p.Start + k}]++
			}
		}
	}
	want := 0
	for _, m := range natstest.Documents(1, documents) {
		want += len(m.Data)
	}
	for token, n := range seen {
		if n != 1 {
			t.Fatalf("token %d of document %d occurs %d times", token.Start, token.Doc, n)
		}
	}
	if len(seen) != want {
		t.Errorf("%d tokens, want %d", len(seen), want)
	}
	for run, steps := range map[string]int{"parent": len(parent), "child": len(child)} {
		a, err := runadmin.Audit(ctx, store, run, tokenizing, config("").Tokenizer, nil)
		if err != nil || a.Steps != uint64(steps) || !a.Ended {
			t.Errorf("audit of %s with %d steps: %+v, %v", run, steps, a, err)
		}
	}
	if _, _, err := runadmin.Fork(ctx, store, "parent", 1, "child", config("concat"), tokenizing); err == nil {
		t.Error("a run is forked into one that there is")
	}
	if _, _, err := runadmin.Fork(ctx, store, "nobody", 1, "other", config("concat"), tokenizing); err == nil {
		t.Error("a run that is not there is forked")
	}
}

// The runs over a stream that are not sealed determine how it is packed, and they must agree.
func TestSharedConfig_UnsealedRunsMustAgree(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	want := func(names []string, c packonline.Config, fails error) {
		t.Helper()
		own, have, err := runadmin.SharedConfig(ctx, store)
		if !errors.Is(err, fails) {
			t.Errorf("error %v, want %v", err, fails)
		}
		if fails == nil && (!slices.Equal(have, names) || (own == nil) != (len(names) == 0) || own != nil &&
			!reflect.DeepEqual(own.Packing, c)) {
			t.Errorf("runs %v pack by %+v, want %v by %+v", have, own, names, c)
		}
	}
	want(nil, packonline.Config{}, nil)
	serve(t, store, "sealed", config("bfd"))
	want([]string{"sealed"}, config("bfd").Packing, nil)
	fork := func(name, method string) {
		if _, _, err := runadmin.Fork(ctx, store, "sealed", 1, name, config(method), tokenizing); err != nil {
			t.Fatal(err)
		}
	}
	fork("one", "concat")
	want([]string{"one"}, config("concat").Packing, nil)
	fork("two", "concat")
	want([]string{"one", "two"}, config("concat").Packing, nil)
	fork("three", "bfd")
	want(nil, packonline.Config{}, runadmin.ErrConfigDiffers)
}

// A plan that lost its end is reported as damaged, to one inspection at a time. Its copy continues with the same
// steps.
func TestRepair_CopyHasSameSteps(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	steps := serve(t, store, "run", config("bfd"))
	inspect := func() *runadmin.DamagedRun {
		t.Helper()
		d, err := runadmin.Inspect(ctx, store, "run", lease.NewLeaderInfo("here", 1), 0)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := inspect()
	if d.Cause != "" || d.Steps != uint64(len(steps)) {
		t.Errorf("a whole plan of %d steps: %d, damaged: %s", len(steps), d.Steps, d.Cause)
	}
	led := new(lease.HeldError)
	if _, err := runadmin.Inspect(ctx, store, "run", lease.NewLeaderInfo("there", 2), 0); !errors.As(err, &led) ||
		led.Run != "run" || led.Leader.Host != "here" {
		t.Errorf("another one: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var left [][]byte
	whole := edges(t, store, "run").Plan
	for at := range uint64(6) {
		b, err := whole.Get(ctx, at+1)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, b)
	}
	if err := store.Own().JetStream().DeleteStream(ctx, "PLAN_run"); err != nil {
		t.Fatal(err)
	}
	if err := edges(t, store, "run").Plan.Append(ctx, 0, left...); err != nil {
		t.Fatal(err)
	}
	d = inspect()
	defer d.Close()
	if d.Records != 6 || d.FormerSteps <= d.Steps {
		t.Errorf("of 6 records left %d are used; %d steps, once %d", d.Records, d.Steps, d.FormerSteps)
	}
	if err := d.Copy(ctx, "copy", func(uint64) {}); err != nil {
		t.Fatal(err)
	}
	if have := serve(t, store, "copy", config("bfd")); !reflect.DeepEqual(have, steps) {
		t.Errorf("%d steps of the copy differ from %d of the run", len(have), len(steps))
	}
}
