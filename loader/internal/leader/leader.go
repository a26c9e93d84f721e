package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/feed"
	"loaderd/loader/internal/forecast"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// LeadPause is the time before a daemon that has been refused tries to lead again.
const LeadPause = 100 * time.Millisecond

// Setup is what a leader is made of.
type Setup struct {
	Name     string // of the run
	Config   plan.Config
	Options  backend.Options
	Backends backend.Backends
	Streams  *planview.Streams
	Log      *slog.Logger
	View     *planview.View
	// Observer is a follower in the same process that caches what is planned, as its readers soon request it.
	Observer DocumentObserver
}

// Leader plans a run: it feeds the planner from the document stream, appends the steps to the plan log, stores checkpoints and releases
// documents. A run has one leader; others see of it only what it writes.
type Leader struct {
	Setup
	header       plan.Header      // of the plan
	fresh        bool             // nothing of the run has been written yet
	term         uint64           // position of the record by which it leads; 0 before
	first        planview.Needs   // first document that each stream held at the start
	found        planview.End     // the end of the plan at the start
	applier      *planner.Applier // restored at the start
	tail         plan.Tail        // last record that the restored applier covers
	requests     chan Command
	more         chan struct{} // signals that readers want more
	sealNotifier sealNotifier
	done         chan struct{} // closed when it leads no more
	length       *forecast.Estimator
	// earlyDrains is the loop's.
	earlyDrains earlyDrains
	// sure waits while it is in doubt whether this process leads; nil where no other could.
	sure func(context.Context) error

	mu              sync.Mutex
	demand          state.Demand // of the followers
	wanted          uint64       // no reader has ever asked for this step or a later one
	given           uint64       // documents of steps before it may be released
	figures         state.PlanStats
	readers         map[int]document.Source // of the documents, by source
	opening         *state.Opening          // the stream that is being opened; nil without one
	opened          map[int]time.Time       // when the reader of each source was opened
	planned         time.Time               // when the last document was planned; zero before
	counted         bool                    // whether a snapshot of the planner was taken
	renewing        time.Time               // since when an append waits for the lease to be renewed; zero without one
	storing         time.Time               // when the append under way began; zero without one
	replays         bool                    // whether it still plans again what the log holds
	trouble         string                  // what is wrong with the document stream, empty when all is well
	fills           map[int]*fillMeter      // of the document streams, by source
	stored          []backend.Stored        // checkpoints, by ascending step
	checkpointed    uint64                  // step of the newest checkpoint
	checkpointBytes int64
}

// DocumentObserver sees the documents and steps that a leader plans, in their order.
type DocumentObserver interface {
	// OnDocument is called with every document that is used, before the planner sees it as the arrival of that number.
	OnDocument(ref, arrival uint64, c document.Content)
	// OnStep is called with every step that they complete.
	OnStep(s *plan.Step)
}

// New returns a leader that has not opened the plan.
func New(s Setup) *Leader {
	l := &Leader{Setup: s, requests: make(chan Command), more: make(chan struct{}, 1), sealNotifier: newSealNotifier(), readers: map[int]document.Source{},
		fills: map[int]*fillMeter{}, opened: map[int]time.Time{}, replays: true, demand: state.NewDemand(), done: make(chan struct{})}
	l.length = forecast.NewEstimator(l, s.Config, s.Options, s.Streams, s.Log)
	return l
}

// Records returns how many records the plan held when the leader opened it.
func (l *Leader) Records() uint64 { return l.found.Records }

// VerifyBy lets the leader call f before each append: f waits while it is in doubt whether this process leads.
func (l *Leader) VerifyBy(f func(context.Context) error) { l.sure = f }

// End notes that this process no longer leads: callers that wait for a result ask the next leader.
func (l *Leader) End() { close(l.done) }

// RunLength returns how long the run will be; nil while that is not known.
func (l *Leader) RunLength() *state.Length { return l.length.Length() }

// Measure has the run measured, as soon as that is possible.
func (l *Leader) Measure(ctx context.Context) error { return l.length.Measure(ctx) }

// Doubted reports whether it is in doubt at this moment whether this process leads.
func (l *Leader) Doubted() bool {
	if l.sure == nil {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it does not wait
	return l.sure(ctx) != nil
}

// Want implements follower.Leader.
func (l *Leader) Want(d state.Demand) {
	l.mu.Lock()
	more := d.Wanted() > l.wanted
	l.demand, l.wanted = d, max(l.wanted, d.Wanted())
	l.mu.Unlock()
	if more {
		waiting.Signal(l.more)
	}
}

// Report implements follower.Leader.
func (l *Leader) Report() state.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := state.Report{PlanStats: l.figures, Steps: l.View.Planned(), Wanted: l.wanted, Slowest: l.demand.Leading(), Replays: l.replays, Trouble: l.trouble, Streams: fillsOf(l.fills),
		Checkpointed: l.checkpointed, CheckpointBytes: l.checkpointBytes, Length: l.length.Length()}
	if l.opening != nil {
		o := *l.opening
		r.Opening = &o
	}
	if source, ok := l.readers[l.figures.Wants]; ok {
		s := source.Status()
		r.Source, r.Reading = &s, time.Since(l.opened[l.figures.Wants])
		r.Idle = r.Reading
		for _, at := range []time.Time{s.FetchedAt, l.planned} {
			if !at.IsZero() {
				r.Idle = min(r.Idle, time.Since(at))
			}
		}
	}
	if !l.renewing.IsZero() {
		r.Renewing = time.Since(l.renewing)
	}
	r.Sources = make(map[string]document.SourceStatus, len(l.readers))
	for source, x := range l.readers {
		if source < len(l.figures.Sources) {
			r.Sources[l.figures.Sources[source].Name] = x.Status()
		}
	}
	if !l.storing.IsZero() {
		r.Storing = time.Since(l.storing)
	}
	return r
}

// limit returns the step that may not be planned yet.
func (l *Leader) limit() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted + uint64(l.Options.Ahead)
}

// WaitedFor implements forecast.Run: a reader waits for a step that is not planned.
func (l *Leader) WaitedFor() bool {
	planned := l.View.Planned()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.demand.Waits(planned)
}

// Read implements forecast.Run.
func (l *Leader) Read() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.demand.Needed != state.EveryStep
}

// Header implements forecast.Run.
func (l *Leader) Header() plan.Header { return l.header }

// Copy implements forecast.Run: it asks the loop for a copy of the planner.
func (l *Leader) Copy(ctx context.Context) (c forecast.Copied, err error) {
	taken := make(chan forecast.Copied, 1) // nobody may take it out, when ctx ends
	take := func(a *planner.Applier, tail plan.Tail) {
		l.Streams.Learn(a.Planner.Infos()) // one may just have been added, and none of it read
		m := a.Planner.Mixture()
		taken <- forecast.Copied{State: a.Checkpoint(l.header.Fingerprint, tail), Controls: l.length.Controls(), Clock: a.Planner.Clock(), Ended: a.Ended,
			Mix: m.Clone(), Sources: m.Status(), Counts: a.Planner.SourceCounts()}
	}
	select {
	case l.requests <- Command{look: take, reply: make(chan Result, 1)}:
	case <-ctx.Done():
		return c, ctx.Err()
	}
	select {
	case c := <-taken:
		return c, nil
	case <-ctx.Done():
		return c, ctx.Err()
	}
}

func (l *Leader) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// Open reads the plan and restores the planner. It refuses a plan made with another configuration or algorithm.
func (l *Leader) Open(ctx context.Context) error {
	var err error
	if l.header, err = l.readHeader(ctx); err != nil {
		return err
	}
	if l.found, err = l.View.Reader.End(ctx); err != nil {
		return fmt.Errorf("read end of plan: %w", err)
	}
	if c := l.header.Repair; c != nil && l.found.Records < c.Records {
		return planview.Unfinished(c, l.Name, l.found.Records)
	}
	var stored []backend.Stored
	if !l.fresh {
		if stored, err = planview.ListCheckpoints(ctx, l.Backends, l.found.Bare); err != nil {
			return err
		}
	}
	if err := l.restore(ctx, stored); err != nil {
		return err
	}
	for l.tail.Position > l.found.Records { // another daemon has planned on and stored the checkpoint meanwhile, or a server that is behind said so
		if err := waiting.Pause(ctx, LeadPause); err != nil {
			return err
		}
		if l.found, err = l.View.Reader.End(ctx); err != nil {
			return fmt.Errorf("read end of plan: %w", err)
		}
	}
	l.update(func() {
		l.wanted = max(l.wanted, l.found.Steps-min(l.found.Steps, uint64(l.Options.Ahead))) // at least this the readers of earlier processes asked for
		if r := l.header.Repair; r != nil {                                                 // they may be as far as the damaged plan once was
			l.wanted = max(l.wanted, r.Steps)
		}
	})
	l.covered()
	l.View.Opened(openedPlan(l))
	if err := l.sameStreams(ctx); err != nil {
		return err
	}
	if err := l.View.Release(ctx, l.first); err != nil {
		return fmt.Errorf("find the oldest step that can be read: %w", err)
	}
	return nil
}

// openedPlan is what was read of the plan.
func openedPlan(l *Leader) planview.Opened {
	return planview.Opened{Header: l.header, Fresh: l.fresh, Steps: l.found.Steps, Tail: l.tail.Position, Behind: l.order(), Keepers: l.applier.Keepers}
}

// sameStreams refuses streams that the plan was not made of, and notes what they hold. A run that is opened waits for streams whose servers do not answer.
func (l *Leader) sameStreams(ctx context.Context) (err error) {
	for told := false; ; told = true {
		l.first, err = l.Streams.Same(ctx, l.header)
		var known *fault.Error
		if !errors.As(err, &known) || known.Reason != fault.SourceDown || ctx.Err() != nil {
			return err
		}
		if !told {
			l.Log.Warn("the document streams do not answer, trying again", "error", err)
		}
		if err := waiting.Pause(ctx, LeadPause); err != nil {
			return err
		}
	}
}

// readHeader returns the first record of the plan, or the one that a new run will write.
func (l *Leader) readHeader(ctx context.Context) (plan.Header, error) {
	last, err := l.Backends.Plan.Last(ctx)
	if err != nil {
		return plan.Header{}, fmt.Errorf("read plan log: %w", err)
	}
	if last == 0 {
		l.fresh = true
		sources, err := l.Streams.Begins(ctx, l.Config)
		return plan.Header{Format: plan.FormatVersion, Algorithm: planner.AlgorithmVersion, Run: l.Name, ID: planview.NewID(), Keyed: l.Backends.Keyed,
			Fingerprint: l.Config.Fingerprint(), Config: l.Config, Sources: sources}, err
	}
	h, b, err := planview.ReadHeaderRecord(ctx, l.Backends.Plan)
	if err != nil {
		return h, err
	}
	l.tail = plan.TailOf(1, b)
	if err := planview.Accepts(l.Config, h); err != nil {
		return plan.Header{}, err
	}
	h.State, err = l.View.Reader.Heritage(ctx, h)
	return h, err
}

// covered notes the end of the run where the checkpoint of the restored applier was taken behind it.
func (l *Leader) covered() {
	if l.found.Ended != 0 && l.found.Ended <= l.tail.Position {
		l.applier.End = &plan.End{Steps: l.found.Steps}
	}
}

// order is that of the records behind the last one that the restored applier covers.
func (l *Leader) order() plan.Validator {
	if l.tail.Position <= 1 {
		return l.header.Validator()
	}
	return l.applier.Validator(&l.header.Config)
}

// begin writes the header of a new run.
func (l *Leader) begin(ctx context.Context) error {
	header := l.header
	if err := l.Streams.Clear(ctx, header); err != nil {
		return l.deposed(err)
	}
	b := plan.EncodeRecord(header)
	if err := l.store(ctx, []write{{records: [][]byte{b}}}); err != nil {
		return err
	}
	l.tail = plan.TailOf(1, b)
	l.Log.Info("new run", "fingerprint", header.Fingerprint, "sources", len(header.Sources))
	return nil
}

// writeGrace bounds how long a stop waits for the plan log.
const writeGrace = 5 * time.Second

// Serve plans until ctx is done or something fails for good, which it returns.
func (l *Leader) Serve(ctx context.Context) error {
	if l.fresh {
		if err := l.begin(ctx); err != nil {
			return fmt.Errorf("begin run %s: %w", l.Name, err)
		}
	}
	if err := l.lead(ctx); err != nil {
		return fmt.Errorf("begin to lead run %s: %w", l.Name, err)
	}
	stopped := ctx.Done()
	g, ctx := errgroup.WithContext(ctx)
	// Writer and uploads go on for writeGrace after ctx is done, to store what the loop had decided: a graceful stop loses no planned step.
	writing, stopWriting := graceful(ctx, writeGrace)
	defer stopWriting()
	uploading, stopUploading := graceful(ctx, writeGrace)
	defer stopUploading()
	writes, written := make(chan write, 64), make(chan struct{})
	documents := feed.New(ctx, l.Name, l.Streams, g, l.onOpenAttempt, l.onOpened)
	if _, err := documents.Next(l.applier.Planner); err != nil { // nothing else begins when the documents are not there
		return errors.Join(err, g.Wait())
	}
	uploads := newUploads()
	g.Go(func() error {
		defer close(uploads.queue)
		defer close(written)
		err := l.write(writing, writes)
		if err != nil { // someone else may write the plan: no more checkpoints are stored
			stopUploading()
		}
		return err
	})
	g.Go(func() error {
		if err := l.upload(uploading, uploads); uploading.Err() == nil {
			return err
		}
		return nil // who has stopped it says why: the writer, or ctx
	})
	g.Go(func() error { return l.releaseDocuments(ctx) })
	g.Go(func() error { return l.watch(ctx) })
	g.Go(func() error { return l.announce(ctx) })
	g.Go(func() error { return l.reportIntake(ctx) })
	g.Go(func() error { return l.length.Run(ctx) })
	g.Go(func() error {
		defer close(writes)
		loop := newLoop(ctx, l, documents, writes, written, uploads)
		err := loop.turn(ctx)
		select {
		case <-stopped:
			if errors.Is(err, errBetween) { // a last checkpoint, so that the next start has nothing to re-plan
				err = errors.Join(err, loop.checkpoint(ctx, true))
			}
		default:
		}
		return err
	})
	return g.Wait()
}

// onOpened notes the reader of a source.
func (l *Leader) onOpened(source int, r document.Source) {
	var attempt *state.Opening
	l.update(func() { attempt, l.readers[source], l.opened[source], l.opening = l.opening, r, time.Now(), nil })
	if attempt != nil && attempt.Error != "" {
		l.Log.Info("document stream opened", "source", attempt.Source, "after", time.Since(attempt.Since))
	}
}

// onOpenAttempt notes an attempt to open a source's stream, and the error of the one before; nil at the first attempt.
func (l *Leader) onOpenAttempt(source string, err error) {
	if err == nil {
		l.update(func() { l.opening = &state.Opening{Source: source, Since: time.Now()} })
		return
	}
	var before string
	l.update(func() { before, l.opening.Error = l.opening.Error, err.Error() })
	if before == "" {
		l.Log.Warn("cannot open the document stream, trying again", "source", source, "error", err)
	}
}

// graceful returns a context that ends a while after ctx.
func graceful(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}
