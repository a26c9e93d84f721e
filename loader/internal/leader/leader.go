package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/internal/forecast"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// RetryPause is the time before a daemon tries to lead again after a failed attempt.
const RetryPause = 100 * time.Millisecond

// Leader plans a run. It feeds the planner from the document streams, appends the steps to the plan log, stores
// checkpoints and purges documents. A run has one leader; followers depend only on what it writes.
//
// Each mutex belongs to one part, and no goroutine holds the mutexes of two parts. While a part's mutex is held, no
// other mutex is locked, with one exception: status locks those of the view and of the documents' readers.
type Leader struct {
	setup          Setup
	restorer       *restorer
	firstDocuments planview.Needs // first document that each stream held at the start
	term           *term
	demand         *readerDemand
	status         *status
	fills          *streamFills
	checkpoints    *checkpointStore
	writer         *planWriter
	retention      *retention // set by Open
	sealNotifier   *sealNotifier
	length         *forecast.Estimator
	requests       chan Command  // to the loop
	done           chan struct{} // closed when this process no longer leads
}

// New returns a leader that has not opened the plan.
func New(s Setup) *Leader {
	v, t := s.View, &term{run: s.Name, daemon: s.Backends.Daemon, plan: s.Backends.Plan, log: s.Log}
	status, checkpoints := newStatus(v, s.Log), &checkpointStore{backend: s.Backends.Checkpoints, term: t}
	l := &Leader{
		setup:        s,
		restorer:     &restorer{setup: s, checkpoints: checkpoints},
		term:         t,
		demand:       newReaderDemand(v, uint64(s.Options.Ahead)),
		status:       status,
		fills:        newStreamFills(s.Options.Retention, s.Log),
		checkpoints:  checkpoints,
		writer:       &planWriter{run: s.Name, plan: s.Backends.Plan, view: v, log: s.Log, term: t, status: status},
		sealNotifier: newSealNotifier(s.Streams, s.Log, t),
		requests:     make(chan Command),
		done:         make(chan struct{}),
	}
	l.length = forecast.NewEstimator(l, s.Config, s.Options, s.Streams, s.Log)
	return l
}

// Records returns how many records the plan held when the leader opened it.
func (l *Leader) Records() uint64 { return l.restorer.end.Records }

// SetLeaseVerifier sets the function that the leader calls before each append. f blocks while it is in doubt whether
// this process leads.
func (l *Leader) SetLeaseVerifier(f func(context.Context) error) { l.term.verifyLease = f }

// EndTerm marks that this process no longer leads. Callers that wait for a result send their requests to the next
// leader.
func (l *Leader) EndTerm() { close(l.done) }

// RunLength returns the estimated length of the run; nil while it is unknown.
func (l *Leader) RunLength() *state.Length { return l.length.Length() }

// Measure requests a measurement of the run's length, which starts as soon as possible.
func (l *Leader) Measure(ctx context.Context) error { return l.length.Measure(ctx) }

// IsLeaseUncertain reports whether it is currently in doubt whether this process leads.
func (l *Leader) IsLeaseUncertain() bool { return l.term.isUncertain() }

// SetDemand implements follower.Leader.
func (l *Leader) SetDemand(d state.Demand) { l.demand.setDemand(d) }

// Report implements follower.Leader. It reads the planner's statistics and the number of steps after demand and
// checkpoints, so they are never older than these.
func (l *Leader) Report() state.Report {
	wanted, slowest := l.demand.report()
	checkpointed, bytes := l.checkpoints.last()
	fills := l.fills.list()
	r := l.status.report()
	r.FirstUnrequested, r.SlowestReader, r.CheckpointStep, r.CheckpointBytes, r.StreamFills = wanted, slowest,
		checkpointed, bytes, fills
	r.Length = l.length.Length()
	return r
}

// HasWaitingReader implements forecast.Run. It reports whether a reader waits for a step that is not planned.
func (l *Leader) HasWaitingReader() bool { return l.demand.hasWaitingReader() }

// HasReaders implements forecast.Run.
func (l *Leader) HasReaders() bool { return l.demand.hasReaders() }

// Header implements forecast.Run.
func (l *Leader) Header() planrecord.Header { return l.restorer.header }

// CopyPlanner implements forecast.Run. It requests a copy of the planner from the loop.
func (l *Leader) CopyPlanner(ctx context.Context) (c forecast.PlannerCopy, err error) {
	copied := make(chan forecast.PlannerCopy, 1) // buffered, because nothing receives from it once ctx is done
	inspect := func(a *planner.Applier, tail planrecord.Tail) {
		l.setup.Streams.AddSources(a.Planner.Infos()) // a source may have been added without any document read
		m := a.Planner.Mixture()
		copied <- forecast.PlannerCopy{
			State: a.Checkpoint(l.restorer.header.Fingerprint, tail), Controls: l.length.Controls(),
			Clock: a.Planner.Clock(), Ended: a.Ended, Mix: m.Clone(), Sources: m.Status(),
			Counts: a.Planner.SourceCounts(), Selections: a.Planner.Filters.Selections(),
		}
	}
	select {
	case l.requests <- Command{inspect: inspect, reply: make(chan Result, 1)}:
	case <-ctx.Done():
		return c, ctx.Err()
	}
	select {
	case c := <-copied:
		return c, nil
	case <-ctx.Done():
		return c, ctx.Err()
	}
}

// Execute sends a command to the loop and waits for its result.
func (l *Leader) Execute(ctx context.Context, q Command) (Result, error) {
	reply := make(chan Result, 1)
	q.reply = reply
	send := l.requests
	for {
		select {
		case send <- q:
			send = nil
		case r := <-reply:
			return r, r.err
		case <-l.done:
			return Result{}, fault.ErrNoLeader
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
}

// Flushed scans the plan after a record for a flush of at least the arrivals up to least. A repeated request must not
// record such a flush twice.
func (l *Leader) Flushed(ctx context.Context, after, least uint64) (at uint64, found bool, err error) {
	err = l.setup.Backends.Plan.Scan(ctx, after+1, func(position uint64, b []byte) error {
		e, err := planrecord.Decode(b)
		if err != nil {
			return planview.DamagedRecordError(position, err)
		}
		if d, flush := e.(planrecord.Flush); flush && d.Arrival >= least {
			at, found = d.Arrival, true
		}
		return nil
	})
	return at, found, err
}

// AwaitSealNotice waits until LowWatermarks has stored the end of a source, for notifyTimeout at most.
func (l *Leader) AwaitSealNotice(ctx context.Context) { l.sealNotifier.wait(ctx) }

// Needs returns the oldest position that this run may still need. Steps that a job or a reader may request need
// it, and so does the replay after a restart from the oldest stored checkpoint.
func (l *Leader) Needs(ctx context.Context) (plan.Position, error) {
	return l.retention.lowWatermark(ctx)
}

// Purge marks the documents that a position covers as unneeded, and purges those that no other run needs.
func (l *Leader) Purge(ctx context.Context, lowWatermark plan.Position) error {
	return l.retention.purge(ctx, lowWatermark)
}

// Open reads the plan and restores the planner. It returns an error for a plan of another configuration or algorithm.
func (l *Leader) Open(ctx context.Context) error {
	r := l.restorer
	if err := r.open(ctx); err != nil {
		return err
	}
	// Readers of earlier processes have requested at least these steps. Readers of a repaired plan have requested the
	// steps of the damaged one.
	l.demand.assumeRequested(r.end.Steps - min(r.end.Steps, uint64(l.setup.Options.Ahead)))
	if repair := r.header.Repair; repair != nil {
		l.demand.assumeRequested(repair.Steps)
	}
	l.retention = &retention{setup: l.setup, header: r.header, term: l.term, status: l.status, demand: l.demand,
		checkpoints: l.checkpoints}
	l.setup.View.ApplyOpened(r.openedPlan())
	if err := l.checkStreams(ctx); err != nil {
		return err
	}
	if err := l.setup.View.UpdateOldest(ctx, l.firstDocuments); err != nil {
		return fmt.Errorf("find the oldest step that can be read: %w", err)
	}
	return nil
}

// checkStreams returns an error if the plan was not made from these streams, and records their first documents. It
// waits for streams whose servers do not answer.
func (l *Leader) checkStreams(ctx context.Context) (err error) {
	for logged := false; ; logged = true {
		l.firstDocuments, err = l.setup.Streams.CheckStreams(ctx, l.restorer.header)
		var known *fault.Error
		if !errors.As(err, &known) || known.Reason != fault.SourceDown || ctx.Err() != nil {
			return err
		}
		if !logged {
			l.setup.Log.Warn("the document streams do not answer, trying again", "error", err)
		}
		if err := waiting.Sleep(ctx, RetryPause); err != nil {
			return err
		}
	}
}
