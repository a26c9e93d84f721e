package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loaderd/loader/plan"
)

// Checkpoints stores planner states by name.
type Checkpoints interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	// List returns the names, in any order.
	List(ctx context.Context) ([]string, error)
	Delete(ctx context.Context, name string) error
}

// checkpointsKept is how many are stored; an older one is used where the newest cannot be.
const checkpointsKept = 3

// checkpoint saves the planner's state when a configured number of steps has come since the last time and no other is on its way, or always
// when forced. Failing to store it makes the next restart longer and nothing else.
func (l *loop) checkpoint(ctx context.Context, force bool) error {
	every, next := uint64(l.options.Checkpoint), l.applier.Planner.Next()
	due := next != l.saved && next >= l.saved+every && l.uploads.under.Load() == 0
	if l.edges.Checkpoints == nil || every == 0 || l.replay != nil || !force && !due {
		return nil
	}
	return l.save(ctx, func(err error) {
		if err != nil {
			l.log.Warn("checkpoint not stored; a restart will re-plan from an older one", "step", next, "error", err)
		}
	})
}

// maxAskers bounds how many requests wait for the checkpoint that follows the one on its way.
const maxAskers = 64

// ask saves the planner's state for a request, once no other checkpoint is on its way: then for all who have asked meanwhile.
func (l *loop) ask(ctx context.Context, q request) error {
	switch {
	case l.applier.Ended:
		q.refuse(BadTicket, "the run has ended at step %d: its plan is complete and needs no checkpoint", l.applier.Planner.Next())
		return nil
	case l.edges.Checkpoints == nil:
		q.refuse(BadTicket, "this run has no place for checkpoints")
		return nil
	case len(l.askers) == maxAskers:
		q.reply <- answer{err: &Error{Reason: PlanLogDown, Message: fmt.Sprintf("%d requests wait for a checkpoint", maxAskers),
			Do: "check the JetStream server and its disk, and ask again"}}
		return nil
	}
	l.askers = append(l.askers, q)
	return l.answer(ctx)
}

// answer saves the planner's state for those who ask for it, unless another checkpoint is on its way.
func (l *loop) answer(ctx context.Context) error {
	if len(l.askers) == 0 || l.uploads.under.Load() > 0 {
		return nil
	}
	askers, step := l.askers, l.applier.Planner.Next()
	l.askers = nil
	return l.save(ctx, func(err error) {
		if err != nil {
			err = &Error{Reason: PlanLogDown, Message: "the checkpoint was not stored", Err: err,
				Do: "check the JetStream server and its disk, and ask again"}
		}
		for _, q := range askers {
			q.reply <- answer{step, err}
		}
	})
}

// save has the planner's state stored once everything that it covers is in the plan log, and tells the result.
func (l *loop) save(ctx context.Context, done func(error)) error {
	a := l.applier
	l.saved = a.Planner.Next()
	x := upload{l.saved, a.Checkpoint(l.plan.header.Fingerprint, l.tail), done}
	l.uploads.under.Add(1)
	return l.append(ctx, write{stored: func(ctx context.Context) { l.uploads.put(ctx, x) }})
}

// storeCheckpoint stores a checkpoint and deletes all but the newest ones. Those of later steps are not of this plan: the planner has been to its
// end before it stores anything.
func (l *leader) storeCheckpoint(ctx context.Context, step uint64, data []byte) error {
	name := checkpointName(step)
	if err := l.edges.Checkpoints.Put(ctx, name, data); err != nil {
		return err
	}
	l.update(func() { l.checkpointed, l.checkpointBytes = step, int64(len(data)) })
	names, err := l.edges.Checkpoints.List(ctx)
	if err != nil {
		return err
	}
	slices.Sort(names)
	behind, found := slices.BinarySearch(names, name)
	if found {
		behind++
	}
	oldest := max(behind-checkpointsKept, 0)
	l.noteStored(names[oldest:behind])
	return l.edges.forget(ctx, slices.Concat(names[:oldest], names[behind:]))
}

// noteStored notes which checkpoints are stored, by their sorted names.
func (l *leader) noteStored(names []string) {
	steps := make([]uint64, 0, len(names))
	for _, name := range names {
		if step, err := strconv.ParseUint(strings.TrimPrefix(name, checkpointPrefix), 10, 64); err == nil {
			steps = append(steps, step)
		}
	}
	l.update(func() { l.stored = steps })
}

func (e Edges) forget(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := e.Checkpoints.Delete(ctx, name); err != nil {
			return fmt.Errorf("delete checkpoint %s: %w", name, err)
		}
	}
	return nil
}

// checkpointName sorts like the step.
func checkpointName(step uint64) string { return fmt.Sprintf("%s%020d", checkpointPrefix, step) }

const checkpointPrefix = "step-"

// restore makes the planner: from the newest checkpoint that fits the plan log, else at the start of the run.
func (l *leader) restore(ctx context.Context) error {
	var names []string
	var err error
	if !l.fresh {
		if names, err = l.edges.checkpoints(ctx); err != nil {
			return err
		}
	}
	slices.Sort(names)
	l.noteStored(names)
	slices.Reverse(names)
	for _, name := range names {
		err := l.load(ctx, name)
		if err == nil {
			p := l.applier.Planner
			l.log.Info("planner restored", "checkpoint", name, "step", p.Next(), "document", p.Cursor().Last())
			return nil
		}
		var truncated *Error
		if errors.As(err, &truncated) && truncated.Reason == PlanTruncated {
			return err
		}
		l.log.Warn("checkpoint not usable; trying an older one", "checkpoint", name, "error", err)
	}
	l.applier, err = l.plan.header.Begin()
	return err
}

// checkpoints lists what is stored.
func (e Edges) checkpoints(ctx context.Context) ([]string, error) {
	if e.Checkpoints == nil {
		return nil, nil
	}
	names, err := e.Checkpoints.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return names, nil
}

// truncated says that a checkpoint of this run was taken behind a record that the plan does not have: what was lost with it may be a
// drain, a seal or a commit, and without it the steps from there on would not be those that were served.
func (l *leader) truncated(name string, c plan.Checkpoint) error {
	have := l.found
	was, steps := strconv.FormatUint(c.Tail.Position, 10), strings.TrimLeft(strings.TrimPrefix(name, checkpointPrefix), "0")
	return &Error{Reason: PlanTruncated,
		Message: fmt.Sprintf("the plan of run %s ends with record %d and %d steps; it once had record %s and %s steps, as checkpoint %s proves: its end is lost",
			l.name, have.records, have.steps, was, cmp.Or(steps, "0"), name),
		Do: "restore the plan's stream from its backup; without one, loaderd repair copies what is left into a usable plan and says what is lost",
		Facts: map[string]string{"run": l.name, "records": strconv.FormatUint(have.records, 10), "steps": strconv.FormatUint(have.steps, 10),
			"records_once": was, "steps_once": cmp.Or(steps, "0")}}
}

func (l *leader) load(ctx context.Context, name string) error {
	b, err := l.edges.Checkpoints.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	c, err := plan.DecodeCheckpoint(b)
	if err != nil {
		return err
	}
	if header := l.plan.header; c.Fingerprint != header.Fingerprint {
		return fmt.Errorf("it is of configuration %s, the run has %s", c.Fingerprint, header.Fingerprint)
	}
	if last, err := l.edges.Plan.Last(ctx); err != nil || c.Tail.Position > last {
		return cmp.Or(err, l.truncated(name, c))
	}
	record, err := l.edges.Plan.Get(ctx, c.Tail.Position)
	if err != nil {
		return fmt.Errorf("read plan record %d that it follows: %w", c.Tail.Position, err)
	}
	if _, err := plan.DecodeRecord(record); err != nil {
		return fmt.Errorf("plan record %d that it follows: %w", c.Tail.Position, err)
	}
	if plan.TailOf(c.Tail.Position, record) != c.Tail {
		return fmt.Errorf("it belongs to another plan log: record %d differs", c.Tail.Position)
	}
	applier, err := l.plan.header.Restore(c)
	if err != nil {
		return err
	}
	if err := readTraits(ctx, applier.Planner, l.edges.Documents); err != nil {
		return err
	}
	l.applier, l.tail = applier, c.Tail
	l.plan.keepers = applier.Keepers
	return nil
}
