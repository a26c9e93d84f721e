package loader

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// control is a recorded decision that takes effect behind a document: without the record the plan would depend on when it was made.
type control struct {
	kind byte
	at   uint64 // document sequence
}

// askCheckpoint is the kind of a request that adds no record to the plan.
const askCheckpoint = 0

// request asks the loop, the only writer of the plan, for a record.
type request struct {
	kind   byte
	step   uint64 // commit
	keeper string // commit, leave
	reply  chan<- answer
}

type answer struct {
	at  uint64
	err error
}

// Seal ends the stream for this run behind its present last document: the pool drains there and every rank sees the same end. It
// returns the sequence of that document. Idempotent.
func (r *Run) Seal(ctx context.Context) (uint64, error) {
	at, err := r.request(ctx, request{kind: kindSeal})
	if err == nil {
		r.announced(ctx)
	}
	return at, err
}

// Drain empties pool and shuffle window behind the stream's present last document, padding where it must, and goes on. Rows that do
// not fill a step keep waiting.
func (r *Run) Drain(ctx context.Context) (uint64, error) {
	return r.request(ctx, request{kind: kindDrain})
}

// Commit records that a keeper's own durable checkpoint covers all steps before step. The first commit of a name makes it a keeper. It
// is idempotent and monotone: a smaller step than before changes nothing. It returns the step before which all keepers cover all.
func (r *Run) Commit(ctx context.Context, keeper string, step uint64) (committed uint64, err error) {
	if err := validKeeper(keeper); err != nil {
		return 0, &Error{Reason: BadTicket, Message: err.Error()}
	}
	return r.request(ctx, request{kind: kindCommit, keeper: keeper, step: step})
}

// Leave records that a keeper keeps no checkpoints any more: it no longer counts. Idempotent.
func (r *Run) Leave(ctx context.Context, keeper string) (committed uint64, err error) {
	if err := validKeeper(keeper); err != nil {
		return 0, &Error{Reason: BadTicket, Message: err.Error()}
	}
	return r.request(ctx, request{kind: kindLeave, keeper: keeper})
}

// Checkpoint stores the planner's state as of now and returns the step that it goes on with.
func (r *Run) Checkpoint(ctx context.Context) (uint64, error) {
	return r.request(ctx, request{kind: askCheckpoint})
}

// request waits for the answer for as long as a reader would wait for a step. What comes to be recorded later does no harm.
func (r *Run) request(ctx context.Context, q request) (uint64, error) {
	stall := time.NewTimer(r.options.Stall)
	defer stall.Stop()
	reply := make(chan answer, 1)
	q.reply = reply
	send := r.requests
	for {
		r.mu.Lock()
		failed, changed := r.failed, r.changed
		r.mu.Unlock()
		if failed != nil {
			return 0, failed
		}
		select {
		case send <- q:
			send = nil
		case a := <-reply:
			return a.at, a.err
		case <-changed: // the run may have failed
		case <-stall.C:
			return 0, r.unanswered()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// handle records a request, or answers at once when there is nothing to record.
func (l *loop) handle(ctx context.Context, q request) error {
	refuse := func(reason Reason, format string, args ...any) {
		q.reply <- answer{err: &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}}
	}
	r := l.run
	switch q.kind {
	case askCheckpoint:
		if l.ended {
			refuse(BadTicket, "the run has ended at step %d: its plan is complete and needs no checkpoint", l.planner.Next())
			return nil
		}
		return l.ask(ctx, q)
	case kindCommit:
		planned := r.Info().Planned
		_, known := l.keepers[q.keeper]
		switch {
		case q.step > planned:
			refuse(BadTicket, "commit of step %d, but the plan holds %d steps", q.step, planned)
		case !known && len(l.keepers) == maxKeepers:
			refuse(BadTicket, "the run has %d keepers, and %q would be one more: let one leave first", maxKeepers, q.keeper)
		case !l.keepers.commit(q.keeper, q.step):
			q.reply <- answer{at: l.keepers.Committed()}
		default:
			return l.keep(ctx, encodeCommit(kindCommit, q.keeper, l.keepers[q.keeper]), q)
		}
		return nil
	case kindLeave:
		if _, known := l.keepers[q.keeper]; !known {
			q.reply <- answer{at: l.keepers.Committed()}
			return nil
		}
		delete(l.keepers, q.keeper)
		return l.keep(ctx, encodeCommit(kindLeave, q.keeper, 0), q)
	}
	if at, sealed := l.sealed(); sealed {
		if q.kind == kindSeal {
			q.reply <- answer{at: at}
		} else {
			refuse(BadTicket, "the run is sealed behind document %d: nothing is left to drain after it", at)
		}
		return nil
	}
	state, err := r.edges.Documents.State(ctx)
	if err != nil {
		q.reply <- answer{err: &Error{Reason: SourceDown, Message: "cannot read the end of the document stream", Err: err, Do: "try again"}}
		return nil
	}
	c := control{q.kind, max(state.Last, l.planner.Cursor())}
	if n := len(l.pending); n > 0 { // a stale answer must not put it before one that is recorded
		c.at = max(c.at, l.pending[n-1].at)
	}
	return l.control(ctx, c, func(context.Context) {
		if c.kind == kindSeal {
			r.end.decided(c.at)
		}
		q.reply <- answer{at: c.at}
	})
}

// control records a control; it takes effect when the planner is there.
func (l *loop) control(ctx context.Context, c control, stored func(context.Context)) error {
	l.pending = append(l.pending, c)
	return l.append(ctx, write{records: [][]byte{encodeControl(c.kind, c.at)}, stored: stored})
}

// linger drains pool and window for a reader that waits, when the stream has been quiet for long enough and what waits could fill a
// step. The clock decides when that is recorded; the record decides what it does.
func (l *loop) linger(ctx context.Context) error {
	r := l.run
	if r.options.Linger <= 0 || l.replay != nil || l.ended || len(l.pending) > 0 || !r.waitedFor() {
		return nil
	}
	s := r.source.Status()
	quiet := !s.DrySince.IsZero() && time.Since(s.DrySince) >= r.options.Linger && s.Last <= l.planner.Cursor()
	if !quiet || !l.planner.Drains() {
		return nil
	}
	r.log.Info("the stream is quiet and a reader waits: pool and window are drained", "document", l.planner.Cursor(), "quiet", time.Since(s.DrySince).Round(time.Millisecond))
	return l.control(ctx, control{kindDrain, l.planner.Cursor()}, nil)
}

// keep stores the record of a change of keepers and makes it known.
func (l *loop) keep(ctx context.Context, record []byte, q request) error {
	keepers := maps.Clone(l.keepers)
	return l.append(ctx, write{records: [][]byte{record}, stored: func(context.Context) {
		l.run.update(func() { l.run.keepers = keepers })
		q.reply <- answer{at: keepers.Committed()}
	}})
}

// replayed takes a record between steps from the log, in place of the request that once wrote it.
func (l *loop) replayed(rec Record) {
	switch rec.Kind {
	case kindSeal, kindDrain:
		l.pending = append(l.pending, control{rec.Kind, rec.At})
	case kindCommit:
		l.keepers.commit(rec.Keeper, rec.At)
	case kindLeave:
		delete(l.keepers, rec.Keeper)
	case kindEnd:
		l.endLogged = true
	}
	keepers := maps.Clone(l.keepers)
	l.run.update(func() { l.run.keepers = keepers })
}

// announce makes known where the run ends, when the log says so.
func (l *loop) announce() {
	if at, sealed := l.sealed(); sealed {
		l.run.end.decided(at)
	}
}

// sealed returns where the run ends, once that is decided.
func (l *loop) sealed() (uint64, bool) {
	if l.ended {
		return l.planner.Cursor(), true
	}
	for _, c := range l.pending {
		if c.kind == kindSeal {
			return c.at, true
		}
	}
	return 0, false
}

// due applies the controls that take effect behind the document at the cursor.
func (l *loop) due(ctx context.Context) error {
	for len(l.pending) > 0 && l.pending[0].at <= l.planner.Cursor() {
		c := l.pending[0]
		if c.at < l.planner.Cursor() {
			return fmt.Errorf("plan log: a control takes effect behind document %d, but the plan is at document %d", c.at, l.planner.Cursor())
		}
		l.pending = l.pending[1:]
		steps := l.planner.Drain
		if c.kind == kindSeal {
			steps = l.planner.Seal
		}
		if err := l.emit(ctx, steps()); err != nil {
			return err
		}
		if c.kind == kindSeal {
			return l.end(ctx)
		}
		if err := l.prepare(); err != nil { // the log may hold the next control for the same document behind these steps
			return err
		}
	}
	return nil
}

// end writes the record behind the last step.
func (l *loop) end(ctx context.Context) error {
	l.ended = true
	l.checkSilent()
	l.run.snapshot(l.planner)
	l.run.log.Info("run ended", "steps", l.planner.Next(), "last_document", l.planner.Cursor())
	if err := l.prepare(); err != nil {
		return err
	}
	if l.replay != nil {
		return fmt.Errorf("plan log: step %d follows behind the end of the run", l.replay.next.Index)
	}
	ended := func(context.Context) { l.run.update(func() { l.run.ended = true }) }
	if l.endLogged {
		ended(ctx)
		return nil
	}
	if err := l.append(ctx, write{records: [][]byte{encodeControl(kindEnd, l.planner.Next())}, stored: ended}); err != nil {
		return err
	}
	return l.checkpoint(ctx, true) // a restart of a run that has ended has nothing to plan again
}
