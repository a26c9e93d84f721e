package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// restorer reads the plan, and restores the planner from a checkpoint. Its fields are set before the goroutines of
// the leader start. After that they are constant, and only the loop uses the applier.
type restorer struct {
	setup       Setup
	checkpoints *checkpointStore

	header   planrecord.Header // of the plan
	isNewRun bool              // no record of the run was written before this leader
	end      planview.LogEnd   // of the plan
	applier  *planner.Applier  // restored
	tail     planrecord.Tail   // last record that the restored applier covers
}

// open reads the plan and restores the planner. It returns an error for a plan of another configuration or algorithm.
func (r *restorer) open(ctx context.Context) error {
	var err error
	if r.header, err = r.readHeader(ctx); err != nil {
		return err
	}
	if err = r.readEnd(ctx); err != nil {
		return err
	}
	if c := r.header.Repair; c != nil && r.end.Records < c.Records {
		return planview.UnfinishedCopyError(c, r.setup.Name, r.end.Records)
	}
	var stored []backend.CheckpointInfo
	if !r.isNewRun {
		if stored, err = planview.ListCheckpoints(ctx, r.setup.Backends, r.end.Bare); err != nil {
			return err
		}
	}
	if err := r.restore(ctx, stored); err != nil {
		return err
	}
	// The checkpoint can be ahead of the end that was read: another daemon stored it meanwhile, or the server that
	// returned the end lagged.
	for r.tail.Position > r.end.Records {
		if err := waiting.Sleep(ctx, RetryPause); err != nil {
			return err
		}
		if err := r.readEnd(ctx); err != nil {
			return err
		}
	}
	r.markEnd()
	return nil
}

// reopen restores the planner from other checkpoints, and reads the end of the plan again.
func (r *restorer) reopen(ctx context.Context, stored []backend.CheckpointInfo) error {
	header, err := r.setup.Backends.Plan.Get(ctx, 1)
	if err != nil {
		return fmt.Errorf("read plan header: %w", err)
	}
	r.tail = planrecord.NewTail(1, header)
	if err := r.readEnd(ctx); err != nil {
		return err
	}
	if err := r.restore(ctx, stored); err != nil {
		return err
	}
	r.markEnd()
	return nil
}

// readHeader returns the first record of the plan, or the one that a new run will write.
func (r *restorer) readHeader(ctx context.Context) (planrecord.Header, error) {
	s := &r.setup
	last, err := s.Backends.Plan.Last(ctx)
	if err != nil {
		return planrecord.Header{}, fmt.Errorf("read plan log: %w", err)
	}
	if last == 0 {
		r.isNewRun = true
		sources, err := s.Streams.SourceBegins(ctx, s.Config)
		return planrecord.Header{
			Format: planrecord.FormatVersion, Algorithm: planner.AlgorithmVersion, Run: s.Name, ID: planview.NewRunID(),
			Keyed: s.Backends.Keyed, Fingerprint: s.Config.Fingerprint(), Config: s.Config, Sources: sources,
		}, err
	}
	h, b, err := planview.ReadHeaderRecord(ctx, s.Backends.Plan)
	if err != nil {
		return h, err
	}
	r.tail = planrecord.NewTail(1, b)
	if err := planview.CheckHeader(s.Config, h); err != nil {
		return planrecord.Header{}, err
	}
	h.State, err = s.View.Reader.ForkState(ctx, h)
	return h, err
}

// readEnd reads the end of the plan.
func (r *restorer) readEnd(ctx context.Context) (err error) {
	if r.end, err = r.setup.View.Reader.ReadEnd(ctx); err != nil {
		return fmt.Errorf("read end of plan: %w", err)
	}
	return nil
}

// markEnd records the end of the run if the restored applier's checkpoint was taken after it.
func (r *restorer) markEnd() {
	if r.end.EndRecord != 0 && r.end.EndRecord <= r.tail.Position {
		r.applier.End = &planrecord.End{Steps: r.end.Steps}
	}
}

// openedPlan describes the plan for the view.
func (r *restorer) openedPlan() planview.OpenedPlan {
	return planview.OpenedPlan{
		Header: r.header, Fresh: r.isNewRun, Steps: r.end.Steps, Tail: r.tail.Position, Validator: r.validator(),
		Commits: r.applier.Commits,
	}
}

// validator validates the records after the last one that the restored applier covers.
func (r *restorer) validator() planrecord.Validator {
	if r.tail.Position <= 1 {
		return r.header.Validator()
	}
	return r.applier.Validator(&r.header.Config)
}

// restore creates the planner from the newest checkpoint that matches the plan log, or else for the start of the run.
func (r *restorer) restore(ctx context.Context, stored []backend.CheckpointInfo) (err error) {
	r.checkpoints.setList(stored)
	for _, s := range slices.Backward(stored) {
		err := r.load(ctx, s)
		if err == nil {
			p := r.applier.Planner
			r.setup.Log.Info("planner restored", event.PlannerRestored, "checkpoint", s.Name, "step", p.Next(), "document",
				p.Cursor().Last())
			return nil
		}
		var truncated *fault.Error
		if errors.As(err, &truncated) && truncated.Reason == fault.PlanTruncated {
			return err
		}
		r.setup.Log.Warn("checkpoint not usable; trying an older one", event.CheckpointRejected, "checkpoint", s.Name,
			"error", err)
	}
	if r.applier, err = planner.NewApplier(r.header); err != nil {
		return err
	}
	r.setup.Streams.AddSources(r.applier.Planner.Infos())
	return planview.RestoreHints(ctx, r.applier.Planner, r.setup.Streams) // for the documents that a fork inherited
}

// load restores the planner from a checkpoint.
func (r *restorer) load(ctx context.Context, s backend.CheckpointInfo) error {
	b, err := r.setup.Backends.Checkpoints.Get(ctx, s.Name)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	c, err := planrecord.DecodeCheckpoint(b)
	if err != nil {
		return err
	}
	if c.Fingerprint != r.header.Fingerprint {
		return fmt.Errorf("it is of configuration %s, the run has %s", c.Fingerprint, r.header.Fingerprint)
	}
	if found, err := r.hasRecord(ctx, c.Tail.Position); err != nil || !found {
		return cmp.Or(err, r.truncatedError(s, c))
	}
	record, err := r.setup.Backends.Plan.Get(ctx, c.Tail.Position)
	if err != nil {
		return fmt.Errorf("read plan record %d that it follows: %w", c.Tail.Position, err)
	}
	if _, err := planrecord.Decode(record); err != nil {
		return fmt.Errorf("plan record %d that it follows: %w", c.Tail.Position, err)
	}
	if planrecord.NewTail(c.Tail.Position, record) != c.Tail {
		return fmt.Errorf("it belongs to another plan log: record %d differs", c.Tail.Position)
	}
	applier, err := planner.Restore(r.header, c)
	if err != nil {
		return err
	}
	r.setup.Streams.AddSources(applier.Planner.Infos())
	if err := planview.RestoreHints(ctx, applier.Planner, r.setup.Streams); err != nil {
		return err
	}
	if r.end.EndRecord != 0 && r.end.EndRecord <= c.Tail.Position { // taken after the end of the run
		if next := applier.Planner.Next(); next != r.end.Steps {
			return fmt.Errorf("it continues with step %d, but the run had ended with %d steps before it was taken",
				next, r.end.Steps)
		}
	}
	if err := r.checkControls(ctx, applier, c.Tail); err != nil {
		return err
	}
	r.applier, r.tail = applier, c.Tail
	return nil
}

// truncatedError returns the error for a plan that has lost its end. A checkpoint of this run was taken after a record
// that the plan no longer has. The lost record may be a flush, a seal or a commit. Without it, planning would
// continue with other steps than the readers received.
func (r *restorer) truncatedError(s backend.CheckpointInfo, c planrecord.Checkpoint) error {
	was, steps := strconv.FormatUint(c.Tail.Position, 10), strconv.FormatUint(s.Step, 10)
	return &fault.Error{Reason: fault.PlanTruncated,
		Message: fmt.Sprintf("the plan of run %s ends with record %d and %d steps; it once had record %s and %s "+
			"steps, as checkpoint %s proves: its end is lost",
			r.setup.Name, r.end.Records, r.end.Steps, was, steps, s.Name),
		Advice: "restore the plan's stream from its backup; without one, loaderd run repair copies what is left into a " +
			"usable plan and reports what is lost",
		Facts: map[string]string{"run": r.setup.Name, "records": strconv.FormatUint(r.end.Records, 10),
			"steps": strconv.FormatUint(r.end.Steps, 10), "records_once": was, "steps_once": steps}}
}

// lagTimeout bounds how long the NATS servers of a run with several daemons may take to return a record of its plan.
// A server that was restarted or disconnected first returns an outdated end of the plan.
const lagTimeout = 5 * time.Second

// hasRecord reports whether the plan has a record at a position.
func (r *restorer) hasRecord(ctx context.Context, position uint64) (bool, error) {
	for began := time.Now(); ; {
		last, err := r.setup.Backends.Plan.Last(ctx)
		if err != nil || last >= position {
			return err == nil, err
		}
		if r.setup.Backends.Elector == nil || time.Since(began) >= lagTimeout {
			return false, nil
		}
		if err := waiting.Sleep(ctx, RetryPause); err != nil {
			return false, err
		}
	}
}

// checkControls returns an error for a restored applier that has read past the place of a later control. A control is
// placed after the planner's last document. A daemon that did not use this checkpoint may have recorded one after it
// had replayed fewer documents.
func (r *restorer) checkControls(ctx context.Context, a *planner.Applier, tail planrecord.Tail) error {
	clock := a.Planner.Clock()
	return r.setup.Backends.Plan.Scan(ctx, tail.Position+1, func(at uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		if err != nil {
			return planview.DamagedRecordError(at, err)
		}
		if c, ok := e.(planrecord.Control); ok && c.EffectiveAfter() < clock {
			return fmt.Errorf("it is behind arrival %d, and record %d that follows it is a %s", clock, at, c)
		}
		return nil
	})
}
