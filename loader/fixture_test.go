package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// memLog is a plan log in memory.
type memLog struct {
	mu      sync.Mutex
	records [][]byte
	limit   int
	block   chan struct{} // if set, Append and Get wait until it is closed
	waiting int           // number of waiting calls
	behind  int           // records missing at the end, as on a lagging server
}

// lag hides the last n records from the end of the log.
func (l *memLog) lag(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind = n
}

// hold makes Append and Get wait until release is called.
func (l *memLog) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	block := make(chan struct{})
	l.block = block
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.block = nil
		close(block)
	}
}

// held returns the number of waiting calls.
func (l *memLog) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// pass waits while the log is held.
func (l *memLog) pass(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.block != nil {
		block := l.block
		l.waiting++
		l.mu.Unlock()
		select {
		case <-block:
		case <-ctx.Done():
		}
		l.mu.Lock()
		l.waiting--
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (l *memLog) Append(ctx context.Context, last uint64, records ...[]byte) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if uint64(len(l.records)) != last {
		return fmt.Errorf("append behind %d: %w", last, fault.ErrLeadershipLost)
	}
	for _, r := range records {
		if len(r) > l.MaxRecord() {
			return fmt.Errorf("record of %d bytes", len(r))
		}
		l.records = append(l.records, slices.Clone(r))
	}
	return nil
}

func (l *memLog) Last(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.records) - l.behind), nil
}

func (l *memLog) Get(ctx context.Context, at uint64) ([]byte, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < 1 || at > uint64(len(l.records)-l.behind) {
		return nil, fmt.Errorf("no record %d", at)
	}
	return l.records[at-1], nil
}

func (l *memLog) Scan(ctx context.Context, from uint64, f func(uint64, []byte) error) error {
	last, _ := l.Last(ctx)
	for at := from; at <= last; at++ {
		b, err := l.Get(ctx, at)
		if err != nil {
			return err
		}
		if err := f(at, b); err != nil {
			return err
		}
	}
	return nil
}

func (l *memLog) MaxRecord() int {
	if l.limit > 0 {
		return l.limit
	}
	return 1 << 20
}

// memCheckpoints stores checkpoints in memory. data holds those of the plan that has claimed them last.
type memCheckpoints struct {
	mu     sync.Mutex
	data   map[string][]byte
	refuse bool           // every Put fails
	plan   func() *memLog // the current plan
	owner  *memLog
	term   uint64
}

// passes refuses a term if a later term of the same plan has claimed the checkpoints.
func (c *memCheckpoints) passes(term uint64) error {
	if now := c.plan(); c.owner != now {
		c.owner, c.term = now, 0
	}
	if term < c.term {
		return fmt.Errorf("%w: term %d follows term %d", fault.ErrLeadershipLost, c.term, term)
	}
	c.term = term
	return nil
}

func (c *memCheckpoints) Claim(_ context.Context, term uint64, begun bool) ([]backend.CheckpointInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if begun && c.owner != c.plan() {
		clear(c.data)
	}
	if err := c.passes(term); err != nil {
		return nil, err
	}
	return c.stored(), nil
}

func (c *memCheckpoints) Put(_ context.Context, term, step uint64, data []byte) ([]backend.CheckpointInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse {
		return nil, errors.New("no room")
	}
	if err := c.passes(term); err != nil {
		return nil, err
	}
	put := backend.CheckpointInfo{Name: fmt.Sprintf("step-%020d", step), Step: step, Bytes: int64(len(data))}
	kept, dropped := backend.KeepCheckpoints(c.stored(), put)
	for _, s := range dropped {
		delete(c.data, s.Name)
	}
	c.data[put.Name] = data
	return kept, nil
}

func (c *memCheckpoints) Get(_ context.Context, name string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data[name], nil
}

func (c *memCheckpoints) List(context.Context) ([]backend.CheckpointInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stored()
	for i := range out {
		out[i].FromEarlierPlan = c.owner != c.plan()
	}
	return out, nil
}

func (c *memCheckpoints) stored() (out []backend.CheckpointInfo) {
	for _, name := range slices.Sorted(maps.Keys(c.data)) {
		var step uint64
		if _, err := fmt.Sscanf(name, "step-%d", &step); err != nil {
			panic(err)
		}
		out = append(out, backend.CheckpointInfo{Name: name, Step: step, Bytes: int64(len(c.data[name]))})
	}
	return out
}

// names returns the names of the checkpoints by ascending step.
func (c *memCheckpoints) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.data))
}

// fixture is the environment of a run, which survives restarts.
type fixture struct {
	docs        *memDocs
	plan        *memLog
	checkpoints *memCheckpoints
	edges       func(*backend.Backends) // changes a run's backends, if set
	config      runconfig.Config
	options     backend.Options
}

func newFixture(c runconfig.Config) *fixture {
	w := &fixture{docs: newDocs(), plan: &memLog{}, config: c,
		options: backend.Options{Ahead: 4, CacheBytes: 1 << 20, StallTimeout: 10 * time.Second, CheckpointSteps: 3}}
	w.checkpoints = &memCheckpoints{data: map[string][]byte{}, plan: func() *memLog { return w.plan }}
	return w
}

// onlySource opens the only source of a run.
type onlySource backend.Stream

// Open implements backend.Sources.
func (s onlySource) Open(context.Context, string, mixture.Source) (backend.Stream, error) {
	return backend.Stream(s), nil
}

// fork returns the headers of a fork at a step, and of the run.
func (w *fixture) fork(t *testing.T, step uint64, name string,
	c runconfig.Config) (forked, from planrecord.Header, err error) {
	return maintenance.Fork(t.Context(), w.edgesOf(), step, name, c)
}

// edgesOf returns the backends of the fixture's run.
func (w *fixture) edgesOf() backend.Backends {
	e := backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan, Checkpoints: w.checkpoints,
		Log: slog.New(slog.DiscardHandler)}
	if w.edges != nil {
		w.edges(&e)
	}
	return e
}

// beginning returns the backends for a new fork or copy.
func (w *fixture) beginning(lowWatermarks backend.LowWatermarks) backend.Backends {
	return backend.Backends{Sources: onlySource{Documents: w.docs, LowWatermarks: lowWatermarks}, Plan: w.plan,
		Checkpoints: w.checkpoints}
}

func (w *fixture) open(t *testing.T) (*loader.Run, error) {
	t.Helper()
	return loader.Open(t.Context(), "test", w.config, w.options, w.edgesOf())
}

// start opens and serves a run; stop ends it and returns what Serve returned.
func (w *fixture) start(t *testing.T) (run *loader.Run, stop func() error) {
	t.Helper()
	run, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	return run, w.serve(t, run)
}

// serve serves a run; stop ends it and returns what Serve returned.
func (w *fixture) serve(t *testing.T, run *loader.Run) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run.Serve(ctx) }()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// read returns the batches of a rank from a step to the end, or n steps when n is not 0.
func read(t *testing.T, run *loader.Run, place state.RankID, from uint64, n int) []*assembly.Batch {
	t.Helper()
	r, err := run.Join(place, from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []*assembly.Batch
	for n == 0 || len(out) < n {
		s, err := r.Next(t.Context())
		if err != nil {
			if n == 0 && isEOF(err) {
				return out
			}
			t.Fatalf("step %d: %v", from+uint64(len(out)), err)
		}
		first, rows := place.RowRange(len(s.Rows))
		b, err := run.Assemble(t.Context(), s, first, rows)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, unlent(b))
	}
	return out
}

// tokensOf returns the token ids of a batch's rows. It checks that the 16-bit encoding is the same, if all ids fit,
// with another padding id.
func tokensOf(t *testing.T, b *assembly.Batch) []int32 {
	t.Helper()
	const pad = 7
	padded := *b
	padded.Pad = pad
	wide, same, slots := make([]int32, b.Rows*b.Bucket), make([]int32, b.Rows*b.Bucket), make([]uint16, b.Rows*b.Bucket)
	b.WriteIDs(wide)
	padded.WriteIDs(same)
	fit := padded.WriteNarrowIDs(slots)
	for i, id := range same {
		if fit && int32(slots[i]) != id {
			t.Fatalf("step %d: id %d is %d as 16 bits", b.Step, id, slots[i])
		}
	}
	if any := slices.ContainsFunc(same, func(id int32) bool { return id < 0 || id > math.MaxUint16 }); fit == any {
		t.Fatalf("step %d: ids that do not fit 16 bits: %v", b.Step, any)
	}
	return wide
}

func reason(err error) fault.Reason {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// unlent returns a copy of a batch that keeps its contents permanently, without the loan.
func unlent(b *assembly.Batch) *assembly.Batch {
	return &assembly.Batch{Step: b.Step, Bucket: b.Bucket, First: b.First, Rows: b.Rows, Pieces: b.Pieces, Pad: b.Pad,
		Loss: b.Loss, Weights: b.Weights,
		PieceDocuments: b.PieceDocuments, Contents: b.Contents, StoreTimes: b.StoreTimes, TracedDocuments: b.TracedDocuments}
}
