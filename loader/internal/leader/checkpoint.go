package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planview"
)

// checkpoint saves the planner's state when Options.Checkpoint steps have come since the last checkpoint and none is being stored, or always
// when forced. If it cannot be stored, the next restart takes longer and nothing else is lost.
func (l *loop) checkpoint(ctx context.Context, force bool) error {
	every, next := uint64(l.leader.Options.Checkpoint), l.leader.applier.Planner.Next()
	due := next != l.saved && next >= l.saved+every && l.uploads.under.Load() == 0
	if l.leader.Backends.Checkpoints == nil || every == 0 || l.replay != nil || !force && !due {
		return nil
	}
	return l.save(ctx, func(err error) {
		if err != nil {
			l.leader.Log.Warn("checkpoint not stored; a restart will re-plan from an older one", "step", next, "error", err)
		}
	})
}

// maxAskers bounds how many requests wait while a checkpoint is being stored.
const maxAskers = 64

// ask saves the planner's state for a request. While a checkpoint is being stored requests wait; the next checkpoint answers them all.
func (l *loop) ask(ctx context.Context, q Command) error {
	switch {
	case l.leader.applier.Ended:
		return l.tell(ctx, q, refusal(fault.BadTicket, "the run has ended at step %d: its plan is complete and needs no checkpoint", l.leader.applier.Planner.Next()))
	case l.leader.Backends.Checkpoints == nil:
		return l.tell(ctx, q, refusal(fault.BadTicket, "this run has no place for checkpoints"))
	case len(l.askers) == maxAskers:
		q.reply <- Result{err: &fault.Error{Reason: fault.PlanLogDown, Message: fmt.Sprintf("%d requests wait for a checkpoint", maxAskers),
			Do: "check the JetStream server and its disk, and ask again"}}
		return nil
	}
	l.askers = append(l.askers, q)
	return l.answer(ctx)
}

// answer saves the planner's state for the requests that wait, unless a checkpoint is still being stored.
func (l *loop) answer(ctx context.Context) error {
	if len(l.askers) == 0 || l.uploads.under.Load() > 0 {
		return nil
	}
	askers, step := l.askers, l.leader.applier.Planner.Next()
	l.askers = nil
	return l.save(ctx, func(err error) {
		switch {
		case errors.Is(err, fault.ErrLeadershipLost), errors.Is(err, context.Canceled): // this process leads no more
			err = fault.ErrNoLeader
		case err != nil:
			err = &fault.Error{Reason: fault.PlanLogDown, Message: "the checkpoint was not stored", Err: err,
				Do: "check the JetStream server and its disk, and ask again"}
		}
		for _, q := range askers {
			q.reply <- Result{At: step, err: err}
		}
	})
}

// save takes the planner's state and has it stored once the plan log holds all records that it covers. done gets the result.
func (l *loop) save(ctx context.Context, done func(error)) error {
	a := l.leader.applier
	l.saved = a.Planner.Next()
	x := upload{l.saved, a.Checkpoint(l.leader.header.Fingerprint, l.tail), done}
	l.uploads.under.Add(1)
	return l.append(ctx, write{stored: func(ctx context.Context) { l.uploads.put(ctx, x) }})
}

// storeCheckpoint stores a checkpoint.
func (l *Leader) storeCheckpoint(ctx context.Context, step uint64, data []byte) error {
	stored, err := l.Backends.Checkpoints.Put(ctx, l.term, step, data)
	if err == nil {
		l.update(func() { l.checkpointed, l.checkpointBytes, l.stored = step, int64(len(data)), stored })
	}
	return err
}

// restore makes the planner: from the newest of these checkpoints that fits the plan log, else at the start of the run.
func (l *Leader) restore(ctx context.Context, stored []backend.Stored) (err error) {
	l.update(func() {
		l.stored = stored
	})
	for _, s := range slices.Backward(stored) {
		err := l.load(ctx, s)
		if err == nil {
			p := l.applier.Planner
			l.Log.Info("planner restored", "checkpoint", s.Name, "step", p.Next(), "document", p.Cursor().Last())
			return nil
		}
		var truncated *fault.Error
		if errors.As(err, &truncated) && truncated.Reason == fault.PlanTruncated {
			return err
		}
		l.Log.Warn("checkpoint not usable; trying an older one", "checkpoint", s.Name, "error", err)
	}
	if l.applier, err = planner.NewApplier(l.header); err != nil {
		return err
	}
	l.Streams.Learn(l.applier.Planner.Infos())
	return planview.RestoreHints(ctx, l.applier.Planner, l.Streams) // of what a fork inherited
}

// truncated is the error for a plan that has lost its end: a checkpoint of this run was taken behind a record that the plan no longer has.
// The lost record may be a drain, a seal or a commit, and without it planning would go on with other steps than were served.
func (l *Leader) truncated(s backend.Stored, c plan.Checkpoint) error {
	have := l.found
	was, steps := strconv.FormatUint(c.Tail.Position, 10), strconv.FormatUint(s.Step, 10)
	return &fault.Error{Reason: fault.PlanTruncated,
		Message: fmt.Sprintf("the plan of run %s ends with record %d and %d steps; it once had record %s and %s steps, as checkpoint %s proves: its end is lost",
			l.Name, have.Records, have.Steps, was, steps, s.Name),
		Do: "restore the plan's stream from its backup; without one, loaderd repair copies what is left into a usable plan and says what is lost",
		Facts: map[string]string{"run": l.Name, "records": strconv.FormatUint(have.Records, 10), "steps": strconv.FormatUint(have.Steps, 10),
			"records_once": was, "steps_once": steps}}
}

func (l *Leader) load(ctx context.Context, s backend.Stored) error {
	b, err := l.Backends.Checkpoints.Get(ctx, s.Name)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	c, err := plan.DecodeCheckpoint(b)
	if err != nil {
		return err
	}
	if header := l.header; c.Fingerprint != header.Fingerprint {
		return fmt.Errorf("it is of configuration %s, the run has %s", c.Fingerprint, header.Fingerprint)
	}
	if there, err := l.reaches(ctx, c.Tail.Position); err != nil || !there {
		return cmp.Or(err, l.truncated(s, c))
	}
	record, err := l.Backends.Plan.Get(ctx, c.Tail.Position)
	if err != nil {
		return fmt.Errorf("read plan record %d that it follows: %w", c.Tail.Position, err)
	}
	if _, err := plan.DecodeRecord(record); err != nil {
		return fmt.Errorf("plan record %d that it follows: %w", c.Tail.Position, err)
	}
	if plan.TailOf(c.Tail.Position, record) != c.Tail {
		return fmt.Errorf("it belongs to another plan log: record %d differs", c.Tail.Position)
	}
	applier, err := planner.Restore(l.header, c)
	if err != nil {
		return err
	}
	l.Streams.Learn(applier.Planner.Infos())
	if err := planview.RestoreHints(ctx, applier.Planner, l.Streams); err != nil {
		return err
	}
	if l.found.Ended != 0 && l.found.Ended <= c.Tail.Position { // it was taken behind the end of the run
		if next := applier.Planner.Next(); next != l.found.Steps {
			return fmt.Errorf("it goes on with step %d, and the run had ended with %d steps before it was taken", next, l.found.Steps)
		}
	}
	if err := l.inTime(ctx, applier, c.Tail); err != nil {
		return err
	}
	l.applier, l.tail = applier, c.Tail
	return nil
}

// behindFor is for how long the servers of a run that several daemons may serve have to show a record of its plan: one that has just come back, or was cut
// off, answers from before.
const behindFor = 5 * time.Second

// reaches reports whether the plan has a record at a position.
func (l *Leader) reaches(ctx context.Context, position uint64) (bool, error) {
	for began := time.Now(); ; {
		last, err := l.Backends.Plan.Last(ctx)
		if err != nil || last >= position {
			return err == nil, err
		}
		if l.Backends.Elector == nil || time.Since(began) >= behindFor {
			return false, nil
		}
		if err := waiting.Pause(ctx, LeadPause); err != nil {
			return false, err
		}
	}
}

// inTime refuses a restored applier that has taken documents behind which a later control stands. Controls stand where the planner was:
// a daemon that did not use this checkpoint, and had taken less again, may have recorded one before where this one was.
func (l *Leader) inTime(ctx context.Context, a *planner.Applier, tail plan.Tail) error {
	clock := a.Planner.Clock()
	return l.Backends.Plan.Scan(ctx, tail.Position+1, func(at uint64, record []byte) error {
		e, err := plan.DecodeRecord(record)
		if err != nil {
			return planview.Damaged(at, err)
		}
		if c, ok := e.(plan.Control); ok && c.Behind() < clock {
			return fmt.Errorf("it is behind arrival %d, and record %d that follows it is a %s", clock, at, c)
		}
		return nil
	})
}
