package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/plan"
	"loaderd/packonline"
	"loaderd/shuffle"
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

// memCheckpoints stores checkpoints in memory.
type memCheckpoints struct {
	mu     sync.Mutex
	data   map[string][]byte
	refuse bool // to store any
}

func (c *memCheckpoints) Put(_ context.Context, name string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse {
		return errors.New("no room")
	}
	c.data[name] = data
	return nil
}

func (c *memCheckpoints) Get(_ context.Context, name string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data[name], nil
}

func (c *memCheckpoints) List(context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for n := range c.data {
		names = append(names, n)
	}
	return names, nil
}

func (c *memCheckpoints) Delete(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.data, name)
	return nil
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
	need uint64
	ends []uint64
}

func (f *memFloors) Need(_ context.Context, from uint64) error {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	f.need = from
	return nil
}

func (f *memFloors) Ends(_ context.Context, at uint64) error {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	f.ends = append(f.ends, at)
	return nil
}

func (f *memFloors) Purge(context.Context) (uint64, error) {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	f.docs.first = max(f.docs.first, f.need)
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
	return &memSource{docs: d, next: from}, nil
}

type memSource struct {
	docs *memDocs
	mu   sync.Mutex
	next uint64
	dry  time.Time
}

func (s *memSource) Next(ctx context.Context) (loader.Document, error) {
	for {
		s.docs.mu.Lock()
		more := s.docs.more
		s.mu.Lock()
		if s.next <= uint64(len(s.docs.docs)) {
			d := s.docs.docs[s.next-1]
			s.next++
			s.dry = time.Time{}
			s.mu.Unlock()
			s.docs.mu.Unlock()
			return d, nil
		}
		if s.dry.IsZero() {
			s.dry = time.Now()
		}
		s.mu.Unlock()
		s.docs.mu.Unlock()
		select {
		case <-ctx.Done():
			return loader.Document{}, ctx.Err()
		case <-more:
		}
	}
}

func (s *memSource) Status() loader.SourceStatus {
	last := s.docs.state().Last
	s.mu.Lock()
	defer s.mu.Unlock()
	return loader.SourceStatus{Last: last, Fetched: s.next - 1, Delivered: s.next - 1, DrySince: s.dry}
}

func (s *memSource) Close() error { return nil }

// config is a small run: rows of 16 tokens, 4 rows a step.
func config(method string) plan.Config {
	return plan.Config{Seed: 7, Tokenizer: plan.Tokenizer{Name: "test", Fingerprint: "f", VocabSize: 1 << 20, End: -1, Pad: -7},
		Documents: plan.DocumentsConfig{Dedupe: 8},
		Packing: packonline.Config{Method: method, Buckets: []int{16}, Atom: 1, Pool: 8, Hold: 100, MaxAge: 64,
			Splice: packonline.Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096, Dimension: 4}},
		Shuffle: shuffle.Config{Window: 6}, Steps: plan.StepsConfig{Rows: 4, Last: plan.LastPad}, Attention: plan.AttentionDocument}
}

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
	return &world{docs: newDocs(), plan: &memLog{}, checkpoints: &memCheckpoints{data: map[string][]byte{}}, config: c,
		options: loader.Options{Ahead: 4, CacheBytes: 1 << 20, Stall: 10 * time.Second, Checkpoint: 3}}
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
	return run, stop
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
