package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"loaderd/loader/plan"
	"loaderd/packonline"
)

// Options are what a Run needs besides its plan: nothing of it changes what is served, only when.
type Options struct {
	// Ahead is how many steps may be planned beyond what readers asked for.
	Ahead int `koanf:"ahead"`
	// CacheBytes bounds the tokens kept for assembling rows.
	CacheBytes int64 `koanf:"cache_bytes"`
	// Stall is how long a reader waits for a step, and a request for its record, before it gets the cause as an error.
	Stall time.Duration `koanf:"stall_timeout"`
	// Checkpoint is how many steps lie between two stored planner states. 0 stores none; a restart then re-plans from the start.
	Checkpoint int `koanf:"checkpoint_steps"`
	// Linger is how long the document stream may be quiet while a reader waits, before what waits is packed for it as by Drain. 0 never.
	Linger time.Duration `koanf:"linger"`
	// Release says what becomes of documents that neither a step behind the keepers' commits nor a restart needs: keep or purge.
	Release string `koanf:"release"`
	// ReleaseAfter is how long they are kept then.
	ReleaseAfter time.Duration `koanf:"release_after"`
}

// Edges are the parts of the world that a Run works with.
type Edges struct {
	Documents   Documents
	Plan        PlanLog
	Checkpoints Checkpoints // may be nil
	Floors      Floors      // may be nil: all documents stay
	Log         *slog.Logger
}

// Info describes a run to readers.
type Info struct {
	Run         string       `json:"run"`
	Fingerprint string       `json:"fingerprint"`
	Config      plan.Config  `json:"config"`
	Start       uint64       `json:"start"`     // sequence of the first document
	Planned     uint64       `json:"planned"`   // steps 0 ... Planned-1 can be read
	Ended       bool         `json:"ended"`     // no step follows
	Committed   uint64       `json:"committed"` // all keepers' own checkpoints cover all steps before this one
	Oldest      uint64       `json:"oldest"`    // steps before this one are released: their documents may be gone
	Keepers     plan.Keepers `json:"keepers"`
	// Was are names that the run had before its plan was repaired: who holds one of them means this run.
	Was []string `json:"was,omitempty"`
}

// Run is a leader and a follower in one process, with the plan and the follower's demand between them. Open it, call Serve once, read steps
// through Readers.
type Run struct {
	plan     *planView
	leader   *leader
	follower *follower
}

// Open reads the plan and restores the planner. It refuses a plan made with another configuration or algorithm. It changes nothing: a
// new run begins with Serve.
func Open(ctx context.Context, name string, c plan.Config, o Options, e Edges) (*Run, error) {
	if bad := c.Validate(); len(bad) > 0 {
		errs := make([]error, len(bad))
		for i, b := range bad {
			errs[i] = b
		}
		return nil, fmt.Errorf("open run %s: %w", name, errors.Join(errs...))
	}
	log := e.Log.With("run", name)
	view := newPlanView(e.Plan, o)
	l := &leader{name: name, config: c, options: o, edges: e, log: log, plan: view, requests: make(chan request), wanted: make(chan struct{}, 1),
		news: newAnnouncement(), replays: true}
	f := newFollower(view, c, o, e, log)
	f.leader, l.passed = l, f.assembler.cache.put
	if err := l.open(ctx); err != nil {
		return nil, fmt.Errorf("open run %s: %w", name, err)
	}
	f.begin()
	return &Run{view, l, f}, nil
}

// Serve plans until ctx is done or the run fails. It returns nil in the first case. After the end of the stream it stays to answer
// requests. Call it once.
func (r *Run) Serve(ctx context.Context) error {
	var telling sync.WaitGroup
	tell, stop := context.WithCancel(ctx)
	telling.Go(func() { r.follower.tellWaits(tell) })
	err := r.leader.serve(ctx)
	stop()
	telling.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	failed := err
	if failed == nil {
		failed = &Error{Reason: NotLeading, Message: "the daemon is shutting down", Do: "reconnect when it is back"}
	}
	r.plan.fail(failure(failed))
	return err
}

// failure is what readers see of an error that ended the run.
func failure(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Reason: RunFailed, Message: "the run stopped", Err: err, Do: "read the daemon's log, mend the cause and restart it"}
}

// Info describes the run as of now.
func (r *Run) Info() Info {
	h, now := r.plan.header, r.plan.now()
	info := Info{Run: r.leader.name, Fingerprint: h.Fingerprint, Config: r.leader.config, Start: h.Start, Planned: now.steps, Ended: now.ended,
		Committed: now.keepers.Committed(), Oldest: now.oldest, Keepers: now.keepers}
	if h.Repair != nil {
		info.Was = h.Repair.Was
	}
	return info
}

// Join registers a reader that will ask for steps from step on. It checks rank, world and step. It changes nothing but when the plan
// is fed.
func (r *Run) Join(place Place, step uint64) (*Reader, error) {
	return r.follower.join(r.leader.name, place, step)
}

// Step returns one step of the plan without waiting for it: io.EOF behind the end, a *Error for one that is not planned yet.
func (r *Run) Step(ctx context.Context, step uint64) (*plan.Step, error) {
	return r.plan.step(ctx, step)
}

// Assemble returns rows [first, first+n) of a step as tokens.
func (r *Run) Assemble(ctx context.Context, s *plan.Step, first, n int) (*Batch, error) {
	return r.follower.assemble(ctx, s, first, n)
}

// Cause says why a step is not there yet, as its reader would be told; nil when it is, or when the run has ended.
func (r *Run) Cause(step uint64) *Error { return r.follower.explain(step) }

// Lookup returns the sequences of the documents that have a producer's id, in order.
func (r *Run) Lookup(ctx context.Context, id string) ([]uint64, error) {
	return r.leader.edges.Documents.Lookup(ctx, id)
}

// Find calls f with every row of the plan that holds a part of a document, in order.
func (r *Run) Find(ctx context.Context, document uint64, f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	return Find(ctx, r.plan.log, document, f)
}

// Describe says where one document came from.
func (r *Run) Describe(ctx context.Context, sequence uint64) (DocumentInfo, error) {
	return r.leader.edges.Documents.Describe(ctx, sequence)
}

// Seal ends the stream for this run behind its present last document: the pool drains there and every rank sees the same end. It
// returns the sequence of that document. Idempotent.
func (r *Run) Seal(ctx context.Context) (uint64, error) {
	at, err := r.ask(ctx, plan.Seal{})
	if err == nil {
		r.leader.announced(ctx)
	}
	return at, err
}

// Drain empties pool and shuffle window behind the stream's present last document, padding where it must, and goes on. Rows that do
// not fill a step keep waiting.
func (r *Run) Drain(ctx context.Context) (uint64, error) { return r.ask(ctx, plan.Drain{}) }

// Commit records that a keeper's own durable checkpoint covers all steps before step. The first commit of a name makes it a keeper. It
// is idempotent and monotone: a smaller step than before changes nothing. It returns the step before which all keepers cover all.
func (r *Run) Commit(ctx context.Context, keeper string, step uint64) (committed uint64, err error) {
	if err := plan.ValidKeeper(keeper); err != nil {
		return 0, &Error{Reason: BadTicket, Message: err.Error()}
	}
	return r.ask(ctx, plan.Commit{Keeper: keeper, Step: step})
}

// Leave records that a keeper keeps no checkpoints any more: it no longer counts. Idempotent.
func (r *Run) Leave(ctx context.Context, keeper string) (committed uint64, err error) {
	if err := plan.ValidKeeper(keeper); err != nil {
		return 0, &Error{Reason: BadTicket, Message: err.Error()}
	}
	return r.ask(ctx, plan.Leave{Keeper: keeper})
}

// Checkpoint stores the planner's state as of now and returns the step that it goes on with.
func (r *Run) Checkpoint(ctx context.Context) (uint64, error) { return r.ask(ctx, nil) }

// ask asks the leader to record an entry, or for a checkpoint, and waits for as long as a reader would wait for a step. What comes to be
// recorded later does no harm.
func (r *Run) ask(ctx context.Context, e plan.Entry) (uint64, error) {
	stall := time.NewTimer(r.leader.options.Stall)
	defer stall.Stop()
	reply := make(chan answer, 1)
	send := r.leader.requests
	for {
		now := r.plan.now()
		if now.failed != nil {
			return 0, now.failed
		}
		select {
		case send <- request{e, reply}:
			send = nil
		case a := <-reply:
			return a.at, a.err
		case <-now.changed: // the run may have failed
		case <-stall.C:
			return 0, r.follower.unanswered()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
