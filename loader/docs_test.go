package loader_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
)

// memDocs is a document stream in memory. Token k of document n is n*1000+k, so that a batch shows the origin of
// every token.
type memDocs struct {
	mu      sync.Mutex
	docs    []document.Document
	more    chan struct{}
	fetched int
	first   uint64 // documents below are purged
	hints   int    // calls of PackingHints
	stream  plan.Stream
	base    int32 // added to every token
	sealed  bool
	trouble error
}

func newDocs() *memDocs {
	return &memDocs{more: make(chan struct{}), first: 1, stream: plan.Stream{Name: "DOCS", Created: time.Unix(1e9, 0)}}
}

func (d *memDocs) State(context.Context) (document.StreamState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return document.StreamState{Stream: d.stream, First: d.first, Last: uint64(len(d.docs)), Sealed: d.sealed,
		Problem: d.trouble}, nil
}

// state returns the result of State.
func (d *memDocs) state() document.StreamState {
	s, _ := d.State(context.Background())
	return s
}

func (d *memDocs) publish(docs ...document.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range docs {
		x.Sequence = uint64(len(d.docs) + 1)
		if x.Hint == nil {
			x.Hint = hintOf(x.Sequence)
		}
		if x.Loss == nil && x.Parts == nil {
			x.Loss, x.Weight = plantest.Loss(x.Sequence, x.Len()), weightOf(x.Sequence)
		}
		if bringsColumn(x.Sequence) {
			x.Extra = &document.Extra{Columns: [][]byte{columnOf(x.Tokens)}}
		}
		d.docs = append(d.docs, x)
	}
	close(d.more)
	d.more = make(chan struct{})
}

// lengths publishes documents with the given numbers of tokens.
func (d *memDocs) lengths(lengths ...int) {
	for _, n := range lengths {
		d.mu.Lock()
		seq := len(d.docs) + 1
		d.mu.Unlock()
		d.publish(document.Document{Content: document.Content{Tokens: d.tokens(uint64(seq), n)}})
	}
}

// bringsColumn reports whether a document of a memDocs has a column of values.
func bringsColumn(sequence uint64) bool { return sequence%3 > 0 }

// columnOf returns the values of that column: two bytes per token, which identify the token.
func columnOf(tokens []int32) []byte {
	var out []byte
	for _, x := range tokens {
		out = binary.LittleEndian.AppendUint16(out, uint16(x))
	}
	return out
}

// weightOf returns the weight of a document of a memDocs, or nil for the default weight 1.
func weightOf(sequence uint64) *float32 {
	if sequence%5 > 0 {
		return nil
	}
	w := float32(sequence%7) / 4
	return &w
}

func (d *memDocs) tokens(seq uint64, n int) []int32 {
	t := documentTokens(seq, n)
	for k := range t {
		t[k] += d.base
	}
	return t
}

func documentTokens(seq uint64, n int) []int32 {
	t := make([]int32, n)
	for k := range t {
		t[k] = int32(seq)*1000 + int32(k)
	}
	return t
}

// memLowWatermarks is the low watermark of a purgeable memDocs, which has one run.
type memLowWatermarks struct {
	docs *memDocs
	term uint64
	ends []uint64
}

// passes refuses a term if a later one has been used for the run.
func (f *memLowWatermarks) passes(term uint64) error {
	if term < f.term {
		return fmt.Errorf("%w: term %d follows term %d", fault.ErrLeadershipLost, f.term, term)
	}
	f.term = term
	return nil
}

func (f *memLowWatermarks) Register(context.Context, uint64) (uint64, error) {
	return f.Claim(context.Background(), 0, 1)
}

func (f *memLowWatermarks) Claim(_ context.Context, term, from uint64) (uint64, error) {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	return max(f.docs.first, from), f.passes(term)
}

func (f *memLowWatermarks) NotifyProducers(context.Context) error { return nil }

func (f *memLowWatermarks) ReportIntake(context.Context, backend.Intake) error { return nil }

func (f *memLowWatermarks) RecordEnd(_ context.Context, term, at uint64) error {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	if err := f.passes(term); err != nil {
		return err
	}
	f.ends = append(f.ends, at)
	return nil
}

func (f *memLowWatermarks) Advance(_ context.Context, term, from uint64) (uint64, error) {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	if err := f.passes(term); err != nil {
		return 0, err
	}
	f.docs.first = max(f.docs.first, from)
	return f.docs.first, nil
}

var errPurged = &fault.Error{Reason: fault.DocumentLost, Message: "purged"}

func (d *memDocs) PackingHints(_ context.Context, seq uint64) ([]plan.Part, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hints++
	if seq < d.first {
		return nil, errPurged
	}
	return d.docs[seq-1].Documents(), nil
}

func (d *memDocs) Content(_ context.Context, seq uint64) (document.Content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fetched++
	if seq < d.first {
		return document.Content{}, errPurged
	}
	return d.docs[seq-1].Content, nil
}

func (d *memDocs) Refetch(ctx context.Context, sequences []uint64, f func(document.Document)) error {
	for _, seq := range sequences {
		if _, err := d.Content(ctx, seq); err == nil {
			d.mu.Lock()
			x := d.docs[seq-1]
			d.mu.Unlock()
			f(x)
		}
	}
	return ctx.Err()
}

func (d *memDocs) Describe(_ context.Context, seq uint64) (document.Info, error) {
	at := time.Date(2026, 1, 1, 0, 0, int(seq), 0, time.UTC)
	return document.Info{Sequence: seq, Path: fmt.Sprint("doc/", seq), Time: at}, nil
}

func (d *memDocs) ViewDocument(ctx context.Context, seq uint64) (document.View, error) {
	info, _ := d.Describe(ctx, seq)
	d.mu.Lock()
	defer d.mu.Unlock()
	if seq < d.first {
		return document.View{}, errPurged
	}
	return document.View{Info: info, Document: d.docs[seq-1]}, nil
}

func (d *memDocs) Lookup(context.Context, string) ([]uint64, error) { return nil, nil }

func (d *memDocs) Read(_ context.Context, from uint64) (document.Source, error) {
	s, err := d.open(from)
	if err != nil {
		return nil, err
	}
	return queued(s), nil
}

// open returns a source that a test can change before it is queued.
func (d *memDocs) open(from uint64) (*memSource, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if from < d.first {
		return nil, errPurged
	}
	return newSource(d, from), nil
}

// blockingSource waits for documents in Next instead of using a queue. A call of Next marks the documents before it
// as delivered.
type blockingSource interface {
	Next(ctx context.Context) ([]document.Document, error)
	Status() document.SourceStatus
}

// queuedSource puts the results of a blockingSource into a queue.
type queuedSource struct {
	blockingSource
	chunks    chan *document.Chunk
	delivered chan struct{}
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

func queued(s blockingSource) document.Source {
	ctx, cancel := context.WithCancel(context.Background())
	q := &queuedSource{blockingSource: s, chunks: make(chan *document.Chunk), delivered: make(chan struct{}, 1),
		cancel: cancel}
	q.running.Go(func() { q.run(ctx) })
	return q
}

func (q *queuedSource) run(ctx context.Context) {
	ready := make(chan struct{})
	close(ready)
	for {
		docs, err := q.Next(ctx)
		select {
		case q.chunks <- &document.Chunk{Ready: ready, Documents: docs, Err: err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-q.delivered:
		case <-ctx.Done():
			return
		}
	}
}

func (q *queuedSource) Chunks() <-chan *document.Chunk { return q.chunks }
func (q *queuedSource) ReleaseChunk()                  { q.delivered <- struct{}{} }

func (q *queuedSource) Close() error {
	q.cancel()
	q.running.Wait()
	return nil
}

// memSource delivers chunks of one to seven documents.
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

func (s *memSource) Next(ctx context.Context) ([]document.Document, error) {
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

// chunk returns the next available documents. more is closed when documents are published.
func (s *memSource) chunk() (docs []document.Document, more <-chan struct{}) {
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

func (s *memSource) Status() document.SourceStatus {
	last := s.docs.state().Last
	s.mu.Lock()
	defer s.mu.Unlock()
	status := document.SourceStatus{Last: last, Fetched: s.next - 1, Delivered: s.delivered, ConfirmedAt: time.Now()}
	if status.Fetched == last {
		status.DrySince = s.dry
	}
	return status
}
