package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"loaderd/loader/plan"
)

// loop is the leader's only goroutine that touches the planner, and that decides what is appended to the plan log.
type loop struct {
	*leader
	tail    plan.Tail    // last record that was decided on
	replay  *replay      // nil once the log's end is reached
	writes  chan<- write // what was decided, for the writer
	uploads *uploads
	askers  []request // of checkpoints, while another one is on its way
	saved   uint64    // step of the last checkpoint
	heard   bool      // whether documents say what they are about has been looked at

	duplicates duplicates
}

func newLoop(ctx context.Context, l *leader, writes chan<- write, u *uploads) *loop {
	x := &loop{leader: l, tail: l.tail, writes: writes, uploads: u, saved: l.applier.Planner.Next(),
		replay: replayFrom(ctx, l.edges.Plan, l.tail.Position+1, l.applier)}
	if l.found.ended && l.applier.End == nil { // the checkpoint was taken behind the end
		l.applier.End = &plan.End{Steps: l.found.steps}
	}
	counts, _ := l.applier.Planner.Counts()
	x.duplicates.count = counts.Duplicates
	return x
}

// pump moves documents from the source to the loop, which must not block in the source while a request waits.
func pump(ctx context.Context, source Source, out chan<- Document) error {
	for {
		d, err := source.Next(ctx)
		if err != nil {
			return fmt.Errorf("read documents: %w", err)
		}
		select {
		case out <- d:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// statsInterval is how often the figures of Stats are refreshed.
const statsInterval = 200 * time.Millisecond

// errBetween says that the loop stopped between two inputs: everything that the planner made has been handed to the writer.
var errBetween = fmt.Errorf("loop stopped: %w", context.Canceled)

// turn is the loop itself: one document, request or control after the other.
func (l *loop) turn(ctx context.Context, documents <-chan Document) error {
	l.snapshot()
	refresh := time.NewTicker(statsInterval)
	defer refresh.Stop()
	l.checkSilent() // of a checkpoint
	for {
		if err := l.prepare(); err != nil {
			return err
		}
		if err := l.applier.Settle(func(r plan.Ready) error { return l.do(ctx, r) }); err != nil {
			return err
		}
		feed, requests := documents, l.requests
		if l.applier.Ended || (l.replay == nil && l.applier.Planner.Next() >= l.limit()) {
			feed = nil // readers have enough steps before them
		}
		if l.replay != nil {
			requests = nil // they are recorded behind what the log holds
		}
		var err error
		select {
		case <-ctx.Done():
			return errBetween
		case d := <-feed:
			err = l.add(ctx, d)
		case q := <-requests:
			err = l.handle(ctx, q)
		case <-l.uploads.ready:
			err = errors.Join(l.answer(ctx), l.checkpoint(ctx, false))
		case <-l.wanted:
		case <-refresh.C:
			err = l.refresh(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// refresh does what is done now and then.
func (l *loop) refresh(ctx context.Context) error {
	l.snapshot()
	if l.replay == nil {
		l.duplicates.tell(time.Now(), l.config.Documents.Dedupe, l.log)
	}
	return l.linger(ctx)
}

func (l *loop) add(ctx context.Context, d Document) error {
	if d.Skip == "" {
		l.passed(d.Sequence, d.Content)
	}
	ready, err := l.applier.Document(d.arrival())
	if err != nil {
		return err
	}
	counts, _ := l.applier.Planner.Counts()
	l.duplicates.saw(d.Sequence, counts.Duplicates)
	l.checkSilent()
	if err := l.do(ctx, ready); err != nil {
		return err
	}
	return l.checkpoint(ctx, false)
}

// prepare reads the next step of the log during a replay, and ends the replay behind the last one.
func (l *loop) prepare() error {
	if l.replay == nil {
		return nil
	}
	before := l.applier.Keepers
	if err := l.replay.prepare(); err != nil {
		return err
	}
	if !maps.Equal(before, l.applier.Keepers) {
		l.plan.keep(l.applier.Keepers)
	}
	if l.replay.done {
		if l.replay.tail.Position > 0 {
			l.tail = l.replay.tail
		}
		l.replay = nil
		l.duplicates.replayed()
		l.applier.Resume()
		if at, sealed := l.applier.Sealed(); sealed {
			l.news.decided(at)
		}
		l.update(func() { l.replays = false })
	}
	return nil
}

// do does what is ready: the steps are appended to the plan log, or compared with what it holds.
func (l *loop) do(ctx context.Context, r plan.Ready) error {
	if len(r.Steps) > 0 {
		l.snapshot() // what a reader of a step asks for next is not older than the step
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
	if err := l.prepare(); err != nil {
		return err
	}
	if l.replay != nil {
		if err := l.replay.match(&s); err != nil {
			return err
		}
		if s.Index >= l.plan.planned() { // another process appended it after Open
			l.plan.extend(&s)
		}
		return nil
	}
	records, err := plan.EncodeStep(&s, l.edges.Plan.MaxRecord())
	if err != nil {
		return err
	}
	return l.append(ctx, write{records: records, step: &s})
}

// end writes the record behind the last step.
func (l *loop) end(ctx context.Context) error {
	l.checkSilent()
	l.snapshot()
	steps := l.applier.Planner.Next()
	l.log.Info("run ended", "steps", steps, "last_document", l.applier.Planner.Cursor().Last())
	if err := l.prepare(); err != nil {
		return err
	}
	if l.replay != nil {
		return fmt.Errorf("plan log: step %d follows behind the end of the run", l.replay.next.Index)
	}
	if l.applier.End != nil {
		l.plan.end()
		return nil
	}
	end := plan.End{Steps: steps}
	l.applier.Record(end)
	if err := l.append(ctx, write{records: [][]byte{plan.EncodeRecord(end)}, stored: func(context.Context) { l.plan.end() }}); err != nil {
		return err
	}
	return l.checkpoint(ctx, true) // a restart of a run that has ended has nothing to plan again
}
