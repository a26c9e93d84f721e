package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/plan"
)

// memLog is a plan log in memory.
type memLog struct {
	mu      sync.Mutex
	records [][]byte
	limit   int
	block   chan struct{} // Append and Get wait for it when set
	waiting int           // how many wait
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

// held says how many calls wait.
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
		return fmt.Errorf("append behind %d: %w", last, loader.ErrDeposed)
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
	return uint64(len(l.records)), nil
}

func (l *memLog) Get(ctx context.Context, at uint64) ([]byte, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < 1 || at > uint64(len(l.records)) {
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

// memCheckpoints stores checkpoints in memory. Those in data count, for the plan that has claimed them last.
type memCheckpoints struct {
	mu     sync.Mutex
	data   map[string][]byte
	refuse bool           // to store any
	plan   func() *memLog // that there is now
	owner  *memLog
	term   uint64
}

// passes refuses a term when a later one of the same plan has claimed the checkpoints.
func (c *memCheckpoints) passes(term uint64) error {
	if now := c.plan(); c.owner != now {
		c.owner, c.term = now, 0
	}
	if term < c.term {
		return fmt.Errorf("%w: term %d follows term %d", loader.ErrDeposed, c.term, term)
	}
	c.term = term
	return nil
}

func (c *memCheckpoints) Claim(_ context.Context, term uint64, begun bool) ([]loader.Stored, error) {
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

func (c *memCheckpoints) Put(_ context.Context, term, step uint64, data []byte) ([]loader.Stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse {
		return nil, errors.New("no room")
	}
	if err := c.passes(term); err != nil {
		return nil, err
	}
	put := loader.Stored{Name: fmt.Sprintf("step-%020d", step), Step: step, Bytes: int64(len(data))}
	kept, dropped := loader.KeepCheckpoints(c.stored(), put)
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

func (c *memCheckpoints) List(context.Context) ([]loader.Stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stored()
	for i := range out {
		out[i].Earlier = c.owner != c.plan()
	}
	return out, nil
}

func (c *memCheckpoints) stored() (out []loader.Stored) {
	for _, name := range slices.Sorted(maps.Keys(c.data)) {
		var step uint64
		if _, err := fmt.Sscanf(name, "step-%d", &step); err != nil {
			panic(err)
		}
		out = append(out, loader.Stored{Name: name, Step: step, Bytes: int64(len(c.data[name]))})
	}
	return out
}

// names are those of the checkpoints that count, by ascending step.
func (c *memCheckpoints) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.data))
}

// memDocs is a document stream in memory. Token k of document n is n*1000+k, so that a batch shows where every token came from.
type memDocs struct {
	mu      sync.Mutex
	docs    []loader.Document
	more    chan struct{}
	fetched int
	first   uint64 // documents below are purged
	hints   int    // asked for again
	stream  plan.Stream
	trouble error
}

func newDocs() *memDocs {
	return &memDocs{more: make(chan struct{}), first: 1, stream: plan.Stream{Name: "DOCS", Created: time.Unix(1e9, 0)}}
}

func (d *memDocs) State(context.Context) (loader.StreamState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return loader.StreamState{Stream: d.stream, First: d.first, Last: uint64(len(d.docs)), Trouble: d.trouble}, nil
}

// state is what State says.
func (d *memDocs) state() loader.StreamState {
	s, _ := d.State(context.Background())
	return s
}

func (d *memDocs) publish(docs ...loader.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range docs {
		x.Sequence = uint64(len(d.docs) + 1)
		if x.Hint == nil {
			x.Hint = hintOf(x.Sequence)
		}
		d.docs = append(d.docs, x)
	}
	close(d.more)
	d.more = make(chan struct{})
}

// lengths publishes documents of the given numbers of tokens.
func (d *memDocs) lengths(lengths ...int) {
	for _, n := range lengths {
		d.mu.Lock()
		seq := len(d.docs) + 1
		d.mu.Unlock()
		d.publish(loader.Document{Content: loader.Content{Tokens: documentTokens(uint64(seq), n)}})
	}
}

func documentTokens(seq uint64, n int) []int32 {
	t := make([]int32, n)
	for k := range t {
		t[k] = int32(seq)*1000 + int32(k)
	}
	return t
}

// memFloors is the only run's entry in a purgeable memDocs.
type memFloors struct {
	docs *memDocs
	term uint64
	ends []uint64
}

// passes refuses a term when a later one speaks for the run.
func (f *memFloors) passes(term uint64) error {
	if term < f.term {
		return fmt.Errorf("%w: term %d follows term %d", loader.ErrDeposed, f.term, term)
	}
	f.term = term
	return nil
}

func (f *memFloors) Begin(context.Context, uint64) (uint64, error) {
	return f.Claim(context.Background(), 0, 1)
}

func (f *memFloors) Claim(_ context.Context, term, from uint64) (uint64, error) {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	return max(f.docs.first, from), f.passes(term)
}

func (f *memFloors) Ends(_ context.Context, term, at uint64) error {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	if err := f.passes(term); err != nil {
		return err
	}
	f.ends = append(f.ends, at)
	return nil
}

func (f *memFloors) Release(_ context.Context, term, from uint64) (uint64, error) {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	if err := f.passes(term); err != nil {
		return 0, err
	}
	f.docs.first = max(f.docs.first, from)
	return f.docs.first, nil
}

var errPurged = &loader.Error{Reason: loader.DocumentLost, Message: "purged"}

func (d *memDocs) Traits(_ context.Context, seq uint64) (plan.Traits, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hints++
	if seq < d.first {
		return plan.Traits{}, errPurged
	}
	return d.docs[seq-1].Traits, nil
}

func (d *memDocs) Content(_ context.Context, seq uint64) (loader.Content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fetched++
	if seq < d.first {
		return loader.Content{}, errPurged
	}
	return d.docs[seq-1].Content, nil
}

func (d *memDocs) Contents(ctx context.Context, sequences []uint64, f func(uint64, loader.Content)) error {
	for _, seq := range sequences {
		if c, err := d.Content(ctx, seq); err == nil {
			f(seq, c)
		}
	}
	return ctx.Err()
}

func (d *memDocs) Describe(_ context.Context, seq uint64) (loader.DocumentInfo, error) {
	return loader.DocumentInfo{Sequence: seq, Path: fmt.Sprint("doc/", seq)}, nil
}

func (d *memDocs) Lookup(context.Context, string) ([]uint64, error) { return nil, nil }

func (d *memDocs) Read(_ context.Context, from uint64) (loader.Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if from < d.first {
		return nil, errPurged
	}
	return newSource(d, from), nil
}

// memSource delivers chunks of one document up to seven.
type memSource struct {
	docs      *memDocs
	mu        sync.Mutex
	next      uint64
	delivered uint64
	dry       time.Time
}

func newSource(d *memDocs, from uint64) *memSource {
	return &memSource{docs: d, next: from, delivered: from - 1}
}

func (s *memSource) Next(ctx context.Context) ([]loader.Document, error) {
	s.mu.Lock()
	s.delivered = s.next - 1
	s.mu.Unlock()
	for {
		docs, more := s.chunk()
		if len(docs) > 0 {
			return docs, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-more:
		}
	}
}

// chunk returns the next documents that are there; more is closed when others come.
func (s *memSource) chunk() (docs []loader.Document, more <-chan struct{}) {
	s.docs.mu.Lock()
	defer s.docs.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	docs = s.docs.docs[min(s.next-1, uint64(len(s.docs.docs))):]
	docs = docs[:min(uint64(len(docs)), 1+s.next%7)]
	s.next += uint64(len(docs))
	if len(docs) > 0 || s.dry.IsZero() {
		s.dry = time.Now()
	}
	return docs, s.docs.more
}

func (s *memSource) Status() loader.SourceStatus {
	last := s.docs.state().Last
	s.mu.Lock()
	defer s.mu.Unlock()
	status := loader.SourceStatus{Last: last, Fetched: s.next - 1, Delivered: s.delivered}
	if status.Fetched == last {
		status.DrySince = s.dry
	}
	return status
}

func (s *memSource) Close() error { return nil }

// world is everything around a run that survives a restart.
type world struct {
	docs        *memDocs
	plan        *memLog
	checkpoints *memCheckpoints
	edges       func(*loader.Edges) // changes what a run gets, when set
	config      plan.Config
	options     loader.Options
}

func newWorld(c plan.Config) *world {
	w := &world{docs: newDocs(), plan: &memLog{}, config: c,
		options: loader.Options{Ahead: 4, CacheBytes: 1 << 20, Stall: 10 * time.Second, Checkpoint: 3}}
	w.checkpoints = &memCheckpoints{data: map[string][]byte{}, plan: func() *memLog { return w.plan }}
	return w
}

// edgesOf is what a run of the world gets.
func (w *world) edgesOf() loader.Edges {
	e := loader.Edges{Documents: w.docs, Plan: w.plan, Checkpoints: w.checkpoints, Log: slog.New(slog.DiscardHandler)}
	if w.edges != nil {
		w.edges(&e)
	}
	return e
}

// beginning is where a fork or a copy begins.
func (w *world) beginning(floors loader.Floors) loader.Edges {
	return loader.Edges{Documents: w.docs, Plan: w.plan, Checkpoints: w.checkpoints, Floors: floors}
}

func (w *world) open(t *testing.T) (*loader.Run, error) {
	t.Helper()
	return loader.Open(t.Context(), "test", w.config, w.options, w.edgesOf())
}

// start opens and serves a run; stop ends it and returns what Serve returned.
func (w *world) start(t *testing.T) (run *loader.Run, stop func() error) {
	t.Helper()
	run, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	return run, w.serve(t, run)
}

// serve serves a run; stop ends it and returns what Serve returned.
func (w *world) serve(t *testing.T, run *loader.Run) (stop func() error) {
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
func read(t *testing.T, run *loader.Run, place loader.Place, from uint64, n int) []*loader.Batch {
	t.Helper()
	r, err := run.Join(place, from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []*loader.Batch
	for n == 0 || len(out) < n {
		s, err := r.Next(t.Context())
		if err != nil {
			if n == 0 && isEOF(err) {
				return out
			}
			t.Fatalf("step %d: %v", from+uint64(len(out)), err)
		}
		first, rows := place.Slice(len(s.Rows))
		b, err := run.Assemble(t.Context(), s, first, rows)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func reason(err error) loader.Reason {
	var e *loader.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
