package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/feed"
	"loaderd/loader/internal/replay"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// loop is the leader's only goroutine that touches the planner, and that decides what is appended to the plan log.
type loop struct {
	leader      *Leader
	applier     *planner.Applier
	stats       state.PlanStats // as they were published last
	earlyDrains earlyDrains
	tail        plan.Tail       // last record that was handed to the writer
	replay      *replay.Replay  // nil once the log's end is reached
	writes      chan<- write    // to the writer ...
	written     <-chan struct{} // ... which closes this when it takes no more
	uploads     *uploads
	askers      []Command              // requests for a checkpoint that wait while one is being stored
	saved       uint64                 // step of the last checkpoint that was taken
	early       func(*plan.Step) error // refuses a step behind the end that the log told
	hints       hintCheck
	later       uint64 // position of a term behind this process's own, where the log has one
	feeds       *feed.Set
	recent      recentChanges
	traces      traces

	skips skipLog
}

func newLoop(ctx context.Context, l *Leader, f *feed.Set, writes chan<- write, written <-chan struct{}, u *uploads) *loop {
	r := l.restorer
	x := &loop{
		leader: l, applier: r.applier, feeds: f, tail: r.tail, writes: writes, written: written, uploads: u,
		saved: r.applier.Planner.Next(), traces: traces{}, hints: hintCheck{config: l.setup.Config.Packing, log: l.setup.Log},
		replay: replay.From(ctx, l.setup.Backends.Plan, r.tail.Position+1, r.applier, r.validator()),
	}
	x.early = x.replay.Early
	x.replay.Read = x.reads
	counts, _ := r.applier.Planner.Counts()
	x.skips = newSkipLog(counts.Skipped)
	return x
}

// reads takes in a record between steps that is planned again.
func (l *loop) reads(at uint64, e plan.Entry) {
	if _, term := e.(plan.Term); term && at > l.leader.term.position {
		l.later = at
	}
}

// statsInterval is how often the figures of Stats are refreshed.
const statsInterval = 200 * time.Millisecond

// documentsALook is how many documents are planned at most before requests and all else get their turn: a look between
// any two took an eighth of the loop's time.
const documentsALook = 16

// errBetween says that the loop stopped between two inputs: everything that the planner made has been handed to the
// writer.
var errBetween = fmt.Errorf("loop stopped: %w", context.Canceled)

// turn is the loop itself: one document, request or control after the other, some documents before a look at the rest.
func (l *loop) turn(ctx context.Context) error {
	l.snapshot()
	refresh := time.NewTicker(statsInterval)
	defer refresh.Stop()
	l.hints.check(l.applier) // the restored planner may hold enough documents
	for documents := 0; ; documents++ {
		if err := l.prepare(); err != nil {
			return err
		}
		if err := l.applier.Settle(func(r planner.Ready) error { return l.do(ctx, r) }); err != nil {
			return err
		}
		from := feed.None
		var held <-chan struct{}
		switch {
		case ctx.Err() != nil: // no further document is planned
		case l.applier.Ended || l.ahead(): // readers have enough steps before them
		default:
			wanted, err := l.feeds.Next(l.applier.Planner)
			if err != nil {
				return err
			}
			switch {
			case wanted == nil:
			case len(wanted.Held) > 0:
				from, held = wanted, feed.Always
			default:
				from = wanted
			}
		}
		requests := l.leader.requests
		if l.repeats() {
			requests = nil // requests append records, which belong behind all that the log holds
		}
		if held != nil && documents%documentsALook != 0 {
			if err := l.addHeld(ctx, from); err != nil {
				return err
			}
			continue
		}
		var err error
		select {
		case <-ctx.Done():
			return errBetween
		case from.Held = <-from.UnlessHeld():
		case <-held:
			err = l.addHeld(ctx, from)
		case q := <-requests:
			err = l.handle(ctx, q)
		case <-l.uploads.ready:
			err = errors.Join(l.answer(ctx), l.checkpoint(ctx, false))
		case <-l.leader.demand.more:
		case <-refresh.C:
			err = l.refresh(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// ahead reports whether the plan is as far before its readers as it may be. Where the log says that no step follows
// there is only that to be found out, and it goes on.
func (l *loop) ahead() bool {
	return !l.repeats() && l.applier.End == nil && l.applier.Planner.Next() >= l.leader.demand.limit()
}

// repeats reports whether the log still says what comes next: steps, or changes of the mixture and an end behind
// documents that were taken before a restart and belong to no step yet. What is asked of the mixture goes by all
// changes before it. A drain may wait for documents that were only published.
func (l *loop) repeats() bool {
	a := l.applier
	return l.replay != nil || a.End != nil && !a.Ended || slices.ContainsFunc(a.Pending, func(c plan.Control) bool {
		_, drain := c.(plan.Drain)
		return !drain
	})
}

// refresh does what is due every statsInterval.
func (l *loop) refresh(ctx context.Context) error {
	l.snapshot()
	if err := l.lost(); err != nil {
		return err
	}
	if l.replay == nil {
		l.skips.write(time.Now(), l.stats.Sources, l.leader.setup.Log)
	}
	return errors.Join(l.drainEarly(ctx), l.dryness(ctx))
}

// addHeld plans the next document that a feed holds.
func (l *loop) addHeld(ctx context.Context, from *feed.Feed) error {
	defer from.Planned()
	return l.add(ctx, from.Take())
}

func (l *loop) add(ctx context.Context, d document.Document) error {
	if d.Skip == "" {
		l.leader.setup.Observer.OnDocument(plan.Ref(d.Source, d.Sequence), l.applier.Planner.Cursor().Next(), d.Content)
		if d.Trace != nil && l.leader.setup.Backends.Tracer != nil {
			l.traces.take(plan.Ref(d.Source, d.Sequence), d.Trace)
		}
	}
	ready, err := l.applier.Document(d.Arrival())
	if err != nil {
		return err
	}
	counts, _ := l.applier.Planner.Counts()
	l.skips.observe(d.Source, d.Sequence, counts.Skipped)
	l.hints.check(l.applier)
	if err := l.do(ctx, ready); err != nil {
		return err
	}
	return l.checkpoint(ctx, false)
}

// prepare reads the log up to its next step during a replay, and ends the replay when no step follows.
func (l *loop) prepare() error {
	if l.replay == nil {
		return nil
	}
	before := l.applier.Keepers
	if err := l.replay.Prepare(); err != nil {
		return err
	}
	if l.later > 0 { // whoever goes on behind it writes into the term of another
		return l.leader.term.lost(fmt.Errorf("record %d begins a later term: %w", l.later, fault.ErrLeadershipLost))
	}
	if !maps.Equal(before, l.applier.Keepers) {
		l.leader.setup.View.KeepBy(l.replay.Tail.Position, l.applier.Keepers)
	}
	if l.replay.Done {
		if l.replay.Tail.Position > 0 {
			l.tail = l.replay.Tail
		}
		behind := l.replay.Behind
		l.replay = nil
		_, packed := l.applier.Planner.Counts()
		l.earlyDrains.documents = packed.Documents
		l.leader.setup.View.Replayed(l.tail.Position, behind, l.applier.Keepers)
		l.skips.replayed()
		l.applier.Resume()
		if l.applier.Ended && l.applier.End != nil { // what was restored stands behind the end: planning does not find it out
			l.leader.setup.View.End()
		}
		l.tellSealed()
		l.leader.status.endReplay()
	}
	return nil
}

// do carries out what the applier returned: it appends the steps to the plan log, or compares them with the log's
// during a replay.
func (l *loop) do(ctx context.Context, r planner.Ready) error {
	if len(r.Steps) > 0 {
		l.snapshot() // before a reader can see the steps: figures are never older than a step
	}
	for i := range r.Steps {
		if err := l.emit(ctx, r.Steps[i]); err != nil {
			return err
		}
	}
	if r.Ended {
		return l.end(ctx)
	}
	return l.prepare() // the log may hold the next control for the same document behind these steps
}

func (l *loop) emit(ctx context.Context, s plan.Step) error {
	l.leader.setup.Observer.OnStep(&s)
	tell := l.traces.leave(&s, l.leader.setup.Backends.Tracer) // of a step that the log holds it was told before
	if err := l.prepare(); err != nil {
		return err
	}
	if l.replay != nil {
		if err := l.replay.Match(&s); err != nil {
			return err
		}
		if s.Index >= l.leader.setup.View.Planned() { // another process appended the step after Open
			l.leader.setup.View.Extend(&s)
		}
		return nil
	}
	if err := l.early(&s); err != nil {
		return err
	}
	records, err := plan.EncodeStep(&s, l.leader.setup.Backends.Plan.MaxRecord())
	if err != nil {
		return err
	}
	w := write{records: records, step: &s}
	if tell != nil {
		w.stored = func(context.Context) { tell() }
	}
	return l.append(ctx, w)
}

// end writes the record behind the last step.
func (l *loop) end(ctx context.Context) error {
	l.hints.check(l.applier)
	l.snapshot()
	steps := l.applier.Planner.Next()
	if l.replay == nil {
		l.skips.flush(l.stats.Sources, l.leader.setup.Log)
	}
	l.leader.setup.Log.Info("run ended", "steps", steps, "last_document", l.applier.Planner.Cursor().Last(), "skipped", l.skips.count.Total())
	if err := l.prepare(); err != nil {
		return err
	}
	if l.replay != nil {
		return planview.Damaged(l.replay.NextAt, fmt.Errorf("step %d follows behind the end of the run", l.replay.Next.Index))
	}
	if l.applier.End != nil {
		l.leader.setup.View.End()
		return nil
	}
	end := plan.End{Steps: steps}
	l.applier.Record(end)
	if err := l.append(ctx, write{records: [][]byte{plan.EncodeRecord(end)}, stored: func(context.Context) { l.leader.setup.View.End() }}); err != nil {
		return err
	}
	return l.checkpoint(ctx, true) // so that a restart has nothing to plan again
}

// append hands records to the writer, also after ctx is done: a graceful stop loses nothing that was decided. It blocks
// while the writer's queue is full.
func (l *loop) append(ctx context.Context, w write) error {
	w.after = l.tail.Position
	if n := len(w.records); n > 0 {
		l.tail = plan.TailOf(w.after+uint64(n), w.records[n-1])
	}
	select {
	case l.writes <- w:
		return nil
	case <-l.written: // it has failed: that ends ctx
		<-ctx.Done()
		return ctx.Err()
	}
}
