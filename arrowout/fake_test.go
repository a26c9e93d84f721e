package arrowout_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRun is a run with known steps, so that a test can compute what a server should send.
type fakeRun struct {
	info   loader.Info
	steps  []*plan.Step
	begins []int64 // begins of every batch
	last   error   // what Next returns after the last step; nil: it waits
	vocab  int32

	onNext     func(ctx context.Context, step uint64) error // called before a step is returned
	onAssemble func(step uint64)
	joined     func(r *fakeReader)
	onJoin     func(ctx context.Context, place state.RankID, step uint64) error
	act        func(action string, step uint64) (uint64, error)

	clients  []state.Client
	sent     map[string]uint64 // number of steps that jobs were sent; nil: all
	room     func(ctx context.Context, step uint64) error
	consumed func(place state.RankID, c state.Consumption) state.ConsumptionResponse
	resized  func(q state.ResizeRequest) state.ResizeResult

	readers   atomic.Int64
	assembled atomic.Int64
	mu        sync.Mutex
	committed []uint64
	commits   []string
	kept      planrecord.Commits
	askers    []string // callers of seals, flushes and changes of the mixture
	changes   []state.MixRequest
	filters   []state.FilterRequest
	mixed     state.MixResult // result of each change
	stats     []state.SourceStats
	where     string // filter of all documents
	stock     []document.StreamState
	lookup    []uint64 // result of Lookup for any id
	lost      bool     // documents have been purged
	shown     map[uint64]document.View

	begun int // number of sources at the start of the run

	masks bool // documents have tokens without a loss, and loss weights

	contents func(document uint64) document.Content // nil: documents have only tokens

	hidden atomic.Int64 // number of last sources that Info omits until a document is described
}

// newMixed returns a newFake run with three sources. The last source has its own rows, with an attention that differs
// from the run's.
func newMixed(steps, rows, bucket int, attention string) *fakeRun {
	f := newFake(steps, rows, bucket)
	f.info.Config.Attention = attention
	own := map[string]string{runconfig.AttentionDocument: runconfig.AttentionRow,
		runconfig.AttentionRow: runconfig.AttentionDocument}[attention]
	f.info.Config.Sources, f.info.Sources = map[string]mixture.Source{}, nil
	for i, name := range []string{"code", "web", "books"} {
		s := mixture.Source{Weight: float64(i + 1), Epochs: 1, Block: 64}
		if name == "books" {
			s.Packing, s.Attention = &f.info.Config.Packing, own
		}
		f.info.Config.Sources[name] = s
		f.info.Sources = append(f.info.Sources, plan.SourceInfo{SourceBegin: plan.SourceBegin{Name: name, Start: 1},
			Config: s})
	}
	f.begun = 2 // books was added later
	delete(f.info.Config.Sources, "books")
	for _, s := range f.steps {
		for i, row := range s.Rows {
			for k, p := range row {
				source := int(p.Doc) % 2
				if i%3 == 0 {
					source = 2
				}
				row[k].Doc = plan.Ref(source, p.Doc)
			}
		}
	}
	return f
}

// infos returns all sources of the run.
func (f *fakeRun) infos() []plan.SourceInfo { return f.info.Sources }

// newFake returns a run with steps of random rows: some full, some padded, some empty.
func newFake(steps, rows, bucket int) *fakeRun {
	f := &fakeRun{last: io.EOF, vocab: 50257, kept: planrecord.Commits{}, begun: 1}
	f.info = loader.Info{Run: "fake", Fingerprint: "f00d", Config: runconfig.Config{
		Attention: runconfig.AttentionDocument,
		Tokenizer: runconfig.Tokenizer{Name: "gpt2", VocabSize: 50257, End: 50256, Pad: 50256},
		Packing:   packonline.Config{Buckets: []int{bucket}},
		Steps:     runconfig.Steps{Rows: rows, Last: runconfig.LastPad},
		Sources:   map[string]mixture.Source{"docs": {Weight: 1, Epochs: 1}},
	}}
	f.info.Schedule = runconfig.NewSchedule(f.info.Config)
	f.info.Sources = []plan.SourceInfo{{SourceBegin: plan.SourceBegin{Name: "docs", Start: 1},
		Config: f.info.Config.Sources["docs"]}}
	rng, sequence := rand.New(rand.NewPCG(1, 2)), uint64(0)
	for i := range steps {
		s := &plan.Step{Index: uint64(i), Bucket: int32(bucket)}
		for range rows {
			var row []packonline.Piece
			for free := int32(bucket); free > 0 && rng.IntN(6) > 0; {
				n := 1 + rng.Int32N(free)
				if rng.IntN(8) == 0 {
					n = free
				}
				sequence++
				row, free = append(row, packonline.Piece{Doc: sequence, Start: rng.Int32N(100), Length: n}), free-n
			}
			s.Rows = append(s.Rows, row)
		}
		s.Cursor = plan.PositionAfter(sequence)
		f.steps = append(f.steps, s)
	}
	f.info.Planned = uint64(steps)
	return f
}

func (f *fakeRun) token(p packonline.Piece, i int32) int32 {
	return int32((p.Doc*7919 + uint64(p.Start+i)*31) % uint64(f.vocab))
}

// documents returns the documents of pieces, with the lengths that the pieces imply.
func (f *fakeRun) documents(rows [][]packonline.Piece) map[uint64]document.Content {
	all := map[uint64]document.Content{}
	for _, row := range rows {
		for _, p := range row {
			d, seen := all[p.Doc]
			if !seen && f.contents != nil {
				d = f.contents(p.Doc)
			}
			for i := int32(len(d.Tokens)); i < p.Start+p.Length; i++ {
				d.Tokens = append(d.Tokens, f.token(packonline.Piece{Doc: p.Doc}, i))
			}
			all[p.Doc] = d
		}
	}
	return all
}

// masked reports whether token i of a piece has no loss.
func (f *fakeRun) masked(p packonline.Piece, i int32) bool {
	return f.masks && p.Doc%3 > 0 && (p.Start+i)/3%2 == 0
}

// within returns the document within its message to which a piece belongs.
func (f *fakeRun) within(p packonline.Piece) assembly.PieceDocument {
	return assembly.PieceDocument{Index: int32(p.Doc % 5), Start: p.Start / 2}
}

// weight returns the loss weight of a document.
func (f *fakeRun) weight(p packonline.Piece) float32 {
	if !f.masks {
		return 1
	}
	return float32(p.Doc%4) / 2
}

// loss sets the loss runs and weights of a batch's rows.
func (f *fakeRun) loss(b *assembly.Batch) {
	b.Loss, b.Weights = make([]plan.LossRuns, b.Rows), make([][]float32, b.Rows)
	for i, row := range b.Pieces {
		var lengths []int32
		for _, p := range row {
			b.Weights[i] = append(b.Weights[i], f.weight(p))
			for k := range p.Length {
				if f.masked(p, k) {
					lengths = append(lengths, 0, 1)
				} else {
					lengths = append(lengths, 1, 0)
				}
			}
		}
		b.Loss[i] = plan.NewLossRuns(lengths)
	}
}

func (f *fakeRun) Info() loader.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.info
	info.Sources = info.Sources[:len(info.Sources)-int(f.hidden.Load())]
	info.Commits = maps.Clone(f.kept)
	for _, step := range f.committed {
		info.Committed = max(info.Committed, step)
	}
	return info
}

func (f *fakeRun) JoinAs(ctx context.Context, place state.RankID, step uint64,
	client state.Client) (*fakeReader, error) {
	f.mu.Lock()
	f.clients = append(f.clients, client)
	f.mu.Unlock()
	if f.onJoin != nil {
		if err := f.onJoin(ctx, place, step); err != nil {
			return nil, err
		}
	}
	f.readers.Add(1)
	r := &fakeReader{run: f, step: step, dropped: make(chan error, 1)}
	if f.joined != nil {
		f.joined(r)
	}
	return r, nil
}

func (f *fakeRun) SentSteps(_ context.Context, step uint64, of func(job string) bool) (sent uint64) {
	if f.sent == nil {
		return step
	}
	for job, steps := range f.sent {
		if of(job) {
			sent = max(sent, steps)
		}
	}
	return sent
}

func (f *fakeRun) RecordConsumption(place state.RankID, c state.Consumption) state.ConsumptionResponse {
	if f.consumed == nil {
		return state.ConsumptionResponse{}
	}
	return f.consumed(place, c)
}

func (f *fakeRun) Assemble(_ context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	if f.onAssemble != nil {
		f.onAssemble(s.Index)
	}
	rows := s.Rows[first : first+n]
	b := &assembly.Batch{Step: s.Index, Bucket: int(s.Bucket), First: first, Rows: n, Pieces: rows,
		Pad:      f.info.Config.Tokenizer.Pad,
		Contents: f.documents(rows), StoreTimes: f.begins}
	if f.masks {
		f.loss(b)
	}
	if f.info.Config.Documents.CanHoldMultiple() {
		for _, row := range b.Pieces {
			within := make([]assembly.PieceDocument, len(row))
			for k, p := range row {
				within[k] = f.within(p)
			}
			b.PieceDocuments = append(b.PieceDocuments, within)
		}
	}
	f.assembled.Add(1)
	return b, nil
}

func (f *fakeRun) Step(_ context.Context, step uint64) (*plan.Step, error) {
	if step >= uint64(len(f.steps)) {
		return nil, io.EOF
	}
	return f.steps[step], nil
}

func (f *fakeRun) RecordCommit(_ context.Context, c planrecord.Commit) (uint64, error) {
	f.mu.Lock()
	f.committed = append(f.committed, c.Step)
	f.commits = append(f.commits, c.Job)
	f.mu.Unlock()
	_, err := f.doAct("commit", c.Step)
	f.mu.Lock()
	f.kept[c.Job] = planrecord.JobCommit{Step: c.Step, Skipped: c.Skipped}
	f.mu.Unlock()
	return f.Info().Committed, err
}

func (f *fakeRun) Leave(_ context.Context, job string) (uint64, error) {
	_, err := f.doAct("leave "+job, 0)
	f.mu.Lock()
	delete(f.kept, job)
	f.mu.Unlock()
	return f.Info().Committed, err
}

func (f *fakeRun) Resize(_ context.Context, q state.ResizeRequest) (state.ResizeResult, error) {
	if f.resized == nil {
		return state.ResizeResult{}, nil
	}
	return f.resized(q), nil
}

func (f *fakeRun) LookupDocument(_ context.Context, id string) ([]uint64, error) {
	if f.lookup != nil {
		return slices.Clone(f.lookup), nil
	}
	if id == "two" {
		return []uint64{2}, nil
	}
	return nil, nil
}

func (f *fakeRun) FindRows(_ context.Context, document uint64,
	found func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	for _, s := range f.steps {
		for i, row := range s.Rows {
			pieces := slices.DeleteFunc(slices.Clone(row), func(p packonline.Piece) bool { return p.Doc != document })
			if len(pieces) == 0 {
				continue
			}
			if err := found(s, i, pieces); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fakeRun) Describe(_ context.Context, sequence uint64) (document.Info, error) {
	f.hidden.Store(0)
	if f.lost {
		return document.Info{}, &fault.Error{Reason: fault.DocumentLost}
	}
	return document.Info{Sequence: sequence, Subject: "docs.fake", Path: fmt.Sprintf("/%d", sequence)}, nil
}

// ViewDocument returns the document in shown, or else one with as many tokens as its sequence number.
func (f *fakeRun) ViewDocument(ctx context.Context, ref uint64) (document.View, error) {
	if shown, set := f.shown[ref]; set {
		return shown, nil
	}
	info, err := f.Describe(ctx, plan.RefSequence(ref))
	info.Source = f.info.Sources[plan.RefSource(ref)].Name
	d := document.Document{Sequence: info.Sequence}
	for i := range int32(min(info.Sequence, 1<<20)) {
		d.Tokens = append(d.Tokens, i%200)
	}
	return document.View{Info: info, Document: d}, err
}

func (f *fakeRun) NextDocuments(_ context.Context, source string, n int) ([]uint64, error) {
	refs := make([]uint64, n)
	for i := range refs {
		refs[i] = uint64(i + 5)
		if source != "" {
			refs[i] = plan.Ref(slices.IndexFunc(f.info.Sources, func(x plan.SourceInfo) bool {
				return x.Name == source
			}), refs[i])
		}
	}
	return refs, nil
}

func (f *fakeRun) SealBy(_ context.Context, who string) (uint64, error) {
	return f.askedBy("seal", who)
}
func (f *fakeRun) FlushBy(_ context.Context, who string) (uint64, error) {
	return f.askedBy("flush", who)
}

func (f *fakeRun) SealSource(_ context.Context, name, who string) (uint64, error) {
	return f.askedBy("seal "+name, who)
}
func (f *fakeRun) Filter(_ context.Context, q state.FilterRequest) (uint64, error) {
	f.filters = append(f.filters, q)
	return 7, nil
}

func (f *fakeRun) Mix(_ context.Context, q state.MixRequest) (state.MixResult, error) {
	f.mu.Lock()
	f.changes = append(f.changes, q)
	f.mu.Unlock()
	return f.mixed, nil
}
func (f *fakeRun) ChangeSchedule(_ context.Context, q state.ScheduleRequest) (uint64, error) {
	return f.askedBy(fmt.Sprintf("schedule %v", q.Phases), q.By)
}
func (f *fakeRun) StreamStates(context.Context) ([]document.StreamState, error) { return f.stock, nil }

func (f *fakeRun) Measure(context.Context) error {
	_, err := f.doAct("measure", 0)
	return err
}

func (f *fakeRun) askedBy(action, who string) (uint64, error) {
	f.mu.Lock()
	f.askers = append(f.askers, action+" by "+who)
	f.mu.Unlock()
	return f.doAct(action, 0)
}

func (f *fakeRun) Checkpoint(context.Context) (uint64, error) { return f.doAct("checkpoint", 0) }
func (f *fakeRun) Cause(step uint64) *fault.Error {
	if step < uint64(len(f.steps)) {
		return nil
	}
	return &fault.Error{Reason: fault.PoolFilling, Message: "not yet", Advice: "wait",
		Facts: map[string]string{"rows_ready": "3"}}
}

func (f *fakeRun) Stats() loader.Stats {
	return loader.Stats{Run: "fake", Rows: 12, Sources: f.stats, Where: f.where}
}

func (f *fakeRun) doAct(action string, step uint64) (uint64, error) {
	if f.act == nil {
		return 7, nil
	}
	return f.act(action, step)
}

type fakeReader struct {
	run     *fakeRun
	step    uint64
	dropped chan error
}

func (r *fakeReader) Dropped() <-chan error { return r.dropped }

func (r *fakeReader) Next(ctx context.Context) (*plan.Step, error) {
	if r.run.onNext != nil {
		if err := r.run.onNext(ctx, r.step); err != nil {
			return nil, err
		}
	}
	if r.step >= uint64(len(r.run.steps)) {
		if r.run.last == nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, r.run.last
	}
	r.step++
	return r.run.steps[r.step-1], nil
}

func (r *fakeReader) AwaitRoom(ctx context.Context) error {
	if r.run.room == nil {
		return nil
	}
	return r.run.room(ctx, r.step)
}

func (r *fakeReader) Close() { r.run.readers.Add(-1) }

// serve starts a server on loopback that stops with the test.
func serve[R arrowout.Reader](t testing.TB, run interface {
	arrowout.RunQueries
	JoinAs(context.Context, state.RankID, uint64, state.Client) (R, error)
}, change ...func(*arrowout.Config)) *arrowout.Server {
	t.Helper()
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	for _, f := range change {
		f(&cfg)
	}
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(run), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetStatusProvider(fakeWatcher{})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

// fakeWatcher returns empty results.
type fakeWatcher struct{}

func (fakeWatcher) Status() api.Status   { return api.Status{Run: "fake", Planned: 7} }
func (fakeWatcher) History() api.History { return api.History{Run: "fake", KnownSteps: 7} }

func stop(t testing.TB, s *arrowout.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.Shutdown(ctx)
	if err := <-s.ServeErr(); err != nil {
		t.Error(err)
	}
}

// dial connects a stock Flight client that closes with the test.
func dial(t testing.TB, s *arrowout.Server, options ...grpc.DialOption) flight.Client {
	t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	c, err := flight.NewClientWithMiddleware(s.Addr().String(), nil, nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// get opens a stream that ends with the test.
func get(t testing.TB, c flight.Client, ticket string) (*flight.Reader, context.CancelFunc, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		return nil, cancel, err
	}
	r, err := flight.NewRecordReader(stream)
	if err != nil {
		return nil, cancel, err
	}
	t.Cleanup(r.Release)
	return r, cancel, nil
}

func mustGet(t testing.TB, c flight.Client, ticket string) *flight.Reader {
	t.Helper()
	r, _, err := get(t, c, ticket)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute) // five thousand readers under the race detector, with other tests in parallel
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("gave up waiting: %s", what)
		case <-tick.C:
		}
	}
}
