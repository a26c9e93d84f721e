package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"loaderd/loader/plan"

	"golang.org/x/sync/errgroup"
)

// leader plans a run: it feeds the planner from the document stream, appends what comes out to the plan log, stores checkpoints and releases
// documents. There is one of a run, and what it writes is all that others see of it.
type leader struct {
	name    string
	config  plan.Config
	options Options
	edges   Edges
	log     *slog.Logger
	plan    *planView

	fresh    bool          // nothing of the run has been written yet
	first    plan.Position // before the first document that the stream held at the start
	found    planEnd       // likewise of the plan
	applier  *plan.Applier // as restored
	tail     plan.Tail     // last record that it covers
	requests chan request
	wanted   chan struct{} // signals that readers want more
	news     announcement
	// passed is shown the content of every document that is used, for a follower in the same process. It is soon asked for.
	passed func(sequence uint64, c Content)

	mu              sync.Mutex
	demand          demand // of the followers
	figures         planStats
	source          Source
	storing         time.Time // when the append under way began; zero without one
	replays         bool      // plans again what the log holds
	trouble         string    // with the document stream, empty without
	stored          []uint64  // steps of the stored checkpoints, ascending
	checkpointed    uint64    // step of the newest checkpoint
	checkpointBytes int64
}

// report is what a leader says of itself: it explains why a step is not there yet.
type report struct {
	planStats
	source          *SourceStatus // nil before the document stream is open
	storing         time.Duration // how long the append under way has taken
	replays         bool
	trouble         string
	checkpointed    uint64
	checkpointBytes int64
}

// want implements leading.
func (l *leader) want(d demand) {
	l.mu.Lock()
	more := d.Wanted > l.demand.Wanted
	l.demand = d
	l.mu.Unlock()
	if more {
		select {
		case l.wanted <- struct{}{}:
		default:
		}
	}
}

// report implements leading.
func (l *leader) report() report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := report{planStats: l.figures, replays: l.replays, trouble: l.trouble, checkpointed: l.checkpointed, checkpointBytes: l.checkpointBytes}
	if l.source != nil {
		s := l.source.Status()
		r.source = &s
	}
	if !l.storing.IsZero() {
		r.storing = time.Since(l.storing)
	}
	return r
}

// limit returns the step that may not be planned yet.
func (l *leader) limit() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.demand.Wanted + uint64(l.options.Ahead)
}

// waitedFor reports whether a reader waits for a step that is not planned.
func (l *leader) waitedFor() bool {
	planned := l.plan.planned()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.demand.waits(planned)
}

func (l *leader) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// open reads the plan and restores the planner. It refuses a plan made with another configuration or algorithm.
func (l *leader) open(ctx context.Context) error {
	state, err := l.edges.Documents.State(ctx)
	if err != nil {
		return fmt.Errorf("read document stream: %w", err)
	}
	if l.plan.header, err = l.readHeader(ctx, state); err != nil {
		return err
	}
	if l.found, err = l.plan.reader.end(ctx); err != nil {
		return fmt.Errorf("read end of plan: %w", err)
	}
	if c := l.plan.header.Repair; c != nil && l.found.records < c.Records {
		return unfinished(c, l.name, l.found.records)
	}
	l.plan.steps, l.plan.ended = l.found.steps, l.found.ended
	if err := l.restore(ctx); err != nil {
		return err
	}
	l.first = plan.Before(state.First)
	if err := l.plan.release(ctx, l.first); err != nil {
		return fmt.Errorf("find the oldest step that can be read: %w", err)
	}
	return nil
}

// readHeader returns the first record of the plan, or the one that a new run will write.
func (l *leader) readHeader(ctx context.Context, documents StreamState) (plan.Header, error) {
	last, err := l.edges.Plan.Last(ctx)
	if err != nil {
		return plan.Header{}, fmt.Errorf("read plan log: %w", err)
	}
	if last == 0 {
		l.fresh = true
		return plan.Header{Format: plan.FormatVersion, Algorithm: plan.AlgorithmVersion, Run: l.name, Fingerprint: l.config.Fingerprint(),
			Start: documents.First, Stream: documents.Stream, Config: l.config}, nil
	}
	b, err := l.edges.Plan.Get(ctx, 1)
	if err != nil {
		return plan.Header{}, fmt.Errorf("read plan header: %w", err)
	}
	e, err := plan.DecodeRecord(b)
	if err != nil {
		return plan.Header{}, err
	}
	h, ok := e.(plan.Header)
	if !ok {
		return plan.Header{}, fmt.Errorf("read plan header: record 1 is of kind %d", e.Kind())
	}
	l.tail = plan.TailOf(1, b)
	if err := accepts(l.config, h); err != nil {
		return plan.Header{}, err
	}
	return h, madeOf(h, documents.Stream)
}

// otherAlgorithm says that another version of the planner made the plan.
func otherAlgorithm(h plan.Header) string {
	return fmt.Sprintf("run %s was planned by algorithm version %d, this binary has version %d", h.Run, h.Algorithm, plan.AlgorithmVersion)
}

// accepts refuses a plan that this configuration or binary would continue differently.
func accepts(c plan.Config, h plan.Header) error {
	mismatch := func(message, do string) error {
		return &Error{Reason: PlanMismatch, Message: message, Do: do,
			Facts: map[string]string{"plan_fingerprint": h.Fingerprint, "fingerprint": c.Fingerprint()}}
	}
	if h.Algorithm != plan.AlgorithmVersion {
		return mismatch(otherAlgorithm(h), "continue it with the binary that began it, or go on with this one in a fork: "+
			"loaderd fork --run "+h.Run+" --step N --new NAME, N being the step that the training is at")
	}
	if h.Fingerprint != c.Fingerprint() {
		return mismatch(fmt.Sprintf("run %s was planned with another configuration: %s", h.Run, strings.Join(h.Config.Differences(c), "; ")),
			"restore the configuration or choose another run name")
	}
	return nil
}

// begin writes the header of a new run.
func (l *leader) begin(ctx context.Context) error {
	header := l.plan.header
	if err := l.edges.clear(ctx, header); err != nil {
		return err
	}
	b := plan.EncodeRecord(header)
	if err := l.store(ctx, []write{{records: [][]byte{b}}}); err != nil {
		return err
	}
	l.tail = plan.TailOf(1, b)
	l.log.Info("new run", "fingerprint", header.Fingerprint, "first_document", header.Start)
	return nil
}

// writeGrace bounds how long a stop waits for the plan log.
const writeGrace = 5 * time.Second

// serve plans until ctx is done or something fails for good, which it returns.
func (l *leader) serve(ctx context.Context) error {
	if l.fresh {
		if err := l.begin(ctx); err != nil {
			return fmt.Errorf("begin run %s: %w", l.name, err)
		}
	}
	source, err := l.edges.Documents.Read(ctx, l.applier.Planner.Cursor().Next())
	if err != nil {
		return fmt.Errorf("read documents: %w", err)
	}
	defer source.Close()
	l.update(func() { l.source = source })
	if err := l.found.within(source.Status().Last, l.name); err != nil {
		return err
	}

	// What the loop decided is still written after ctx is done, within writeGrace: a graceful stop loses no planned step.
	writing, stopWriting := graceful(ctx, writeGrace)
	defer stopWriting()
	uploading, stopUploading := graceful(ctx, writeGrace)
	defer stopUploading()

	stopped := ctx.Done()
	g, ctx := errgroup.WithContext(ctx)
	writes := make(chan write, 64)
	documents := make(chan Document)
	uploads := newUploads()
	g.Go(func() error {
		defer close(uploads.queue)
		err := l.write(writing, writes)
		if err != nil { // of a plan that someone else may write, nothing more is stored
			stopUploading()
		}
		return err
	})
	g.Go(func() error { l.upload(uploading, uploads); return nil })
	g.Go(func() error { return pump(ctx, source, documents) })
	g.Go(func() error { return l.releaseDocuments(ctx) })
	g.Go(func() error { return l.watch(ctx) })
	g.Go(func() error { return l.announce(ctx) })
	g.Go(func() error {
		defer close(writes)
		loop := newLoop(ctx, l, writes, uploads)
		err := loop.turn(ctx, documents)
		select {
		case <-stopped:
			if errors.Is(err, errBetween) { // so that the next start has nothing to re-plan
				err = errors.Join(err, loop.checkpoint(writing, true))
			}
		default:
		}
		return err
	})
	return g.Wait()
}

// graceful returns a context that ends a while after ctx.
func graceful(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}
