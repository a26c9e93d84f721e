package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/feed"
	"loaderd/loader/internal/replay"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// loop is the goroutine of the leader that feeds the planner and decides what is appended to the plan log. No other
// goroutine uses the planner.
type loop struct {
	setup         Setup
	applier       *planner.Applier
	feeds         *feed.Set
	queue         *recordQueue
	checkpoints   *checkpointer
	commands      *commandHandler
	requests      <-chan Command
	demand        *readerDemand
	status        *status
	term          *term
	replay        *replay.Replay         // nil once the log's end is reached
	checkNotEnded func(*plan.Step) error // returns an error for a step after the end of the run in the log
	laterTerm     uint64                 // position of a term after this process's own, if the log has one
	stats         state.PlanStats        // as last published
	hints         hintCheck
	traces        traces
	skips         skipLog
	filteredInRow filteredInRow
	earlyFlushes  earlyFlushes
	missing       missingDocument // zero if none is missing
}

// newLoop returns the loop of a leader whose term has begun.
func (l *Leader) newLoop(ctx context.Context, feeds *feed.Set, queue *recordQueue, u *uploadQueue) *loop {
	s, r := l.setup, l.restorer
	checkpoints := &checkpointer{
		interval: uint64(s.Options.CheckpointSteps), fingerprint: r.header.Fingerprint, applier: r.applier, queue: queue,
		uploads: u, log: s.Log, lastStep: r.applier.Planner.Next(),
	}
	counts, _ := r.applier.Planner.Counts()
	x := &loop{
		setup: s, applier: r.applier, feeds: feeds, queue: queue, checkpoints: checkpoints,
		commands: &commandHandler{
			setup: s, header: r.header, applier: r.applier, queue: queue, checkpoints: checkpoints, demand: l.demand,
			length: l.length, sealNotifier: l.sealNotifier, began: time.Now(),
		},
		requests: l.requests, demand: l.demand, status: l.status, term: l.term,
		replay: replay.Start(ctx, s.Backends.Plan, r.tail.Position+1, r.applier, r.validator()),
		hints:  hintCheck{config: s.Config.Packing, log: s.Log}, traces: traces{}, skips: newSkipLog(counts.Skipped),
	}
	x.checkNotEnded = x.replay.CheckNotEnded
	x.replay.OnEntry = x.onReplayed
	return x
}

// onReplayed records a term after this process's own among the replayed records.
func (l *loop) onReplayed(at uint64, e planrecord.Entry) {
	if _, term := e.(planrecord.Term); term && at > l.term.position {
		l.laterTerm = at
	}
}

// statsInterval is the interval at which Stats is refreshed.
const statsInterval = 200 * time.Millisecond

// documentsPerPoll is the maximum number of documents planned between two polls for requests and other events. Polling
// after every document took an eighth of the loop's time.
const documentsPerPoll = 16

// errLoopStopped means that the loop stopped between two inputs. All output of the planner has been passed to the
// writer.
var errLoopStopped = fmt.Errorf("loop stopped: %w", context.Canceled)

// run is the main loop. It processes one document, request or control at a time, and polls for requests after some
// documents.
func (l *loop) run(ctx context.Context) error {
	l.publishStats()
	refresh := time.NewTicker(statsInterval)
	defer refresh.Stop()
	l.hints.check(l.applier) // the restored planner may already hold enough documents
	for documents := 0; ; documents++ {
		if err := l.advanceReplay(); err != nil {
			return err
		}
		if err := l.applier.ApplyPending(func(r planner.Ready) error { return l.applyReady(ctx, r) }); err != nil {
			return err
		}
		from, err := l.nextFeed(ctx)
		if err != nil {
			return err
		}
		var held <-chan struct{}
		if len(from.Documents) > 0 {
			held = feed.ClosedChannel
		}
		requests := l.requests
		if l.isBoundByLog() {
			requests = nil // requests append records, which must follow all records of the log
		}
		if held != nil && documents%documentsPerPoll != 0 {
			if err := l.addHeld(ctx, from); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return errLoopStopped
		case from.Pending = <-from.Queue():
		case <-from.PendingReady():
		case <-held:
			err = l.addHeld(ctx, from)
		case q := <-requests:
			err = l.commands.handle(ctx, q)
		case <-l.checkpoints.uploads.ready:
			err = errors.Join(l.checkpoints.serveRequests(ctx), l.checkpointIfDue(ctx, false))
		case <-l.demand.demandGrew:
		case <-refresh.C:
			err = l.refresh(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// nextFeed returns the feed of the document that is planned next; feed.None if no document is wanted.
func (l *loop) nextFeed(ctx context.Context) (*feed.Feed, error) {
	if ctx.Err() != nil || l.applier.Ended || l.isAhead() { // ahead: enough steps are planned for the readers
		return feed.Empty, nil
	}
	if from, err := l.feeds.Next(l.applier.Planner); from != nil || err != nil {
		return from, err
	}
	return feed.Empty, nil
}

// isAhead reports whether the plan has reached its maximum lead over the readers. If the log already holds the run's
// end, planning continues, because only that end remains to be reached.
func (l *loop) isAhead() bool {
	return !l.isBoundByLog() && l.applier.End == nil && l.applier.Planner.Next() >= l.demand.planLimit()
}

// isBoundByLog reports whether the log still determines what follows: further steps, or pending changes of the mixture
// and an end. These are placed after documents that were read before a restart and belong to no step yet. Decisions
// about the mixture depend on all changes before them. A pending flush does not count, because it may wait for
// documents that were only published.
func (l *loop) isBoundByLog() bool {
	a := l.applier
	return l.replay != nil || a.End != nil && !a.Ended || slices.ContainsFunc(a.Pending, func(c planrecord.Control) bool {
		_, flush := c.(planrecord.Flush)
		return !flush
	})
}

// refresh does the periodic work of the loop, every statsInterval.
func (l *loop) refresh(ctx context.Context) error {
	l.publishStats()
	if err := errors.Join(l.feeds.Poll(), l.checkLostDocuments()); err != nil {
		return err
	}
	if l.replay == nil {
		l.skips.logIfDue(time.Now(), l.stats.Sources, l.setup.Log)
	}
	return errors.Join(l.flushEarly(ctx), l.pauseDry(ctx))
}

// addHeld plans the next held document of a feed.
func (l *loop) addHeld(ctx context.Context, from *feed.Feed) error {
	defer from.MarkPlanned()
	return l.addDocument(ctx, from.NextDocument())
}

func (l *loop) addDocument(ctx context.Context, d document.Document) error {
	usedTokens := l.applier.UsedTokens
	ready, err := l.applier.AddDocument(d.Arrival())
	if err != nil {
		return err
	}
	counts, _ := l.applier.Planner.Counts()
	used := l.applier.UsedTokens > usedTokens
	if used {
		l.setup.Observer.OnDocument(plan.Ref(d.Source, d.Sequence), l.applier.Planner.Clock(), d.Content)
		if d.Trace != nil && l.setup.Backends.Tracer != nil {
			l.traces.addDocument(plan.Ref(d.Source, d.Sequence), d.Trace)
		}
	}
	l.filteredInRow.add(l.applier.Planner.Filters, counts.Skipped.Sub(l.skips.count).Count(plan.SkipFiltered), used)
	l.skips.observe(d.Source, d.Sequence, counts.Skipped)
	l.hints.check(l.applier)
	if err := l.applyReady(ctx, ready); err != nil {
		return err
	}
	return l.checkpointIfDue(ctx, false)
}

// advanceReplay reads the log up to its next step during a replay, and ends the replay if no step follows.
func (l *loop) advanceReplay() error {
	if l.replay == nil {
		return nil
	}
	before := l.applier.Commits
	if err := l.replay.AdvanceToStep(); err != nil {
		return err
	}
	if l.laterTerm > 0 { // a record after it would be in the term of another process
		return l.term.leadershipError(fmt.Errorf("record %d begins a later term: %w", l.laterTerm, fault.ErrLeadershipLost))
	}
	if !maps.Equal(before, l.applier.Commits) {
		l.setup.View.SetCommitsAt(l.replay.Tail.Position, l.applier.Commits)
	}
	if l.replay.Done {
		if l.replay.Tail.Position > 0 {
			l.queue.tail = l.replay.Tail
		}
		behind := l.replay.Reader
		l.replay = nil
		_, packed := l.applier.Planner.Counts()
		l.earlyFlushes.documents = packed.Documents
		l.setup.View.ApplyReplay(l.queue.tail.Position, behind, l.applier.Commits)
		l.skips.markLogged()
		l.applier.FinishReplay()
		if l.applier.Ended && l.applier.End != nil { // the checkpoint was taken after the end, so planning does not reach it
			l.setup.View.MarkEnded()
		}
		l.commands.notifySealed()
		l.status.endReplay()
	}
	return nil
}

// applyReady processes the applier's output. It appends the steps to the plan log, or compares them with the log during
// a replay.
func (l *loop) applyReady(ctx context.Context, r planner.Ready) error {
	if len(r.Steps) > 0 {
		l.publishStats() // before a reader can read the steps, so that the statistics are never older than a step
	}
	for i := range r.Steps {
		if err := l.emitStep(ctx, r.Steps[i]); err != nil {
			return err
		}
	}
	if r.Ended {
		return l.endRun(ctx)
	}
	return l.advanceReplay() // the log may hold the next control for the same document after these steps
}

func (l *loop) emitStep(ctx context.Context, s plan.Step) error {
	l.setup.Observer.OnStep(&s)
	tell := l.traces.stepReporter(&s, l.setup.Backends.Tracer) // a step that the log holds was reported before
	if err := l.advanceReplay(); err != nil {
		return err
	}
	if l.replay != nil {
		if err := l.replay.MatchStep(&s); err != nil {
			return err
		}
		if s.Index >= l.setup.View.PlannedSteps() { // another process appended the step after Open
			l.setup.View.AddStep(&s)
		}
		return nil
	}
	if err := l.checkNotEnded(&s); err != nil {
		return err
	}
	records, err := planrecord.EncodeStep(&s, l.setup.Backends.Plan.MaxRecord())
	if err != nil {
		return err
	}
	w := planWrite{records: records, step: &s}
	if tell != nil {
		w.onStored = func(context.Context) { tell() }
	}
	return l.queue.append(ctx, w)
}

// endRun writes the record after the last step.
func (l *loop) endRun(ctx context.Context) error {
	l.hints.check(l.applier)
	l.publishStats()
	steps := l.applier.Planner.Next()
	if l.replay == nil {
		l.skips.flush(l.stats.Sources, l.setup.Log)
	}
	l.setup.Log.Info("run ended", event.RunEnded, "steps", steps, "last_document", l.applier.Planner.Cursor().Last(),
		"skipped", l.skips.count.Total())
	if err := l.advanceReplay(); err != nil {
		return err
	}
	if l.replay != nil {
		next := l.replay.Next.Index
		return planview.DamagedRecordError(l.replay.NextPosition,
			fmt.Errorf("step %d follows behind the end of the run", next))
	}
	if l.applier.End != nil {
		l.setup.View.MarkEnded()
		return nil
	}
	end := planrecord.End{Steps: steps}
	l.applier.Record(end)
	w := planWrite{records: [][]byte{planrecord.Encode(end)}, onStored: func(context.Context) { l.setup.View.MarkEnded() }}
	if err := l.queue.append(ctx, w); err != nil {
		return err
	}
	return l.checkpointIfDue(ctx, true) // so that a restart has nothing to replay
}

// checkpointIfDue takes a checkpoint if one is due, or always if forced, except during the replay.
func (l *loop) checkpointIfDue(ctx context.Context, force bool) error {
	if l.replay != nil {
		return nil
	}
	return l.checkpoints.checkpointIfDue(ctx, force)
}
