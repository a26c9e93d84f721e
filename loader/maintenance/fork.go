package maintenance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/replay"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// Fork returns the header of a new run, which continues another run from the start of a step with its own
// configuration. It also returns the header of the other run. The new run plans exactly the tokens that the other
// run's steps before that one do not contain. Fork reads the plan, checkpoints and documents of the other run, with
// that run's tokenizer. It plans the other run again up to the last record before the step, from the newest
// checkpoint before the step or from the beginning. The new run starts there with all buffered documents, and with
// every source's position, credit, end and pause.
func Fork(ctx context.Context, from backend.Backends, step uint64, name string,
	c runconfig.Config) (forked, parent planrecord.Header, err error) {
	f := forking{from: from, step: step, plan: &planview.Reader{Log: from.Plan}, streams: planview.NewStreams(from, nil)}
	if forked, err = f.fork(ctx, name, c.Canonical()); err != nil {
		err = fmt.Errorf("fork: %w", err)
	}
	return forked, f.parent, err
}

// forking is the state of a Fork.
type forking struct {
	from    backend.Backends
	step    uint64
	plan    *planview.Reader
	streams *planview.Streams

	parent          planrecord.Header
	firstUnshared   uint64           // first record that the fork does not share
	restoredPlanner                  // initial planner of the fork
	laterPlanner    *restoredPlanner // from a checkpoint that covers documents after the step's start; nil without one
}

// restoredPlanner is a planner with the last record that it covers.
type restoredPlanner struct {
	applier  *planner.Applier
	position uint64 // last record that it covers initially; 1 at the beginning
}

func (f *forking) fork(ctx context.Context, name string, c runconfig.Config) (h planrecord.Header, err error) {
	if err := f.openParent(ctx, c); err != nil {
		return h, err
	}
	if err := f.restorePlanner(ctx); err != nil {
		return h, err
	}
	err = f.checkStreams(ctx)
	var gone *fault.Error
	if errors.As(err, &gone) && gone.Reason == fault.DocumentLost && f.laterPlanner != nil {
		f.restoredPlanner = *f.laterPlanner
		err = f.checkStreams(ctx)
	}
	if err != nil {
		return h, err
	}
	if err := f.replan(ctx); err != nil {
		return h, err
	}
	p := f.applier.Planner
	more, err := f.addedSources(ctx, p.Infos(), c)
	if err != nil {
		return h, err
	}
	if p, err = p.Fork(c, more); err != nil {
		return h, &fault.Error{Reason: fault.PlanMismatch,
			Message: fmt.Sprintf("the configuration cannot continue run %s at step %d: %v", f.parent.Run, f.step, err),
			Advice:  "correct the configuration of the new run"}
	}
	h = planrecord.Header{Format: planrecord.FormatVersion, Algorithm: planner.AlgorithmVersion, Run: name,
		ID:          planview.NewRunID(),
		Fingerprint: c.Fingerprint(), Config: c}
	h.Sources, h.Parent, h.State = p.ForkState(f.parent, f.step)
	_, err = planner.NewApplier(h) // an invalid header is rejected before anything is written
	return h, err
}

// openParent reads the parent's header and finds the step.
func (f *forking) openParent(ctx context.Context, c runconfig.Config) (err error) {
	if f.parent, err = f.plan.Header(ctx); err != nil {
		return fmt.Errorf("read the parent's header: %w", err)
	}
	old := f.parent
	if old.Algorithm != planner.AlgorithmVersion {
		return fmt.Errorf("%s: a fork plans it again: fork it with the binary that planned it",
			planview.AlgorithmMismatch(old))
	}
	if err := checkDocuments(old, c); err != nil {
		return err
	}
	end, err := f.plan.ReadEnd(ctx)
	if err != nil {
		return fmt.Errorf("read the end of the parent's plan: %w", err)
	}
	f.firstUnshared = end.Records + 1
	switch {
	case f.step > end.Steps:
		return planview.StepNotPlannedError(f.step, end.Steps)
	case f.step < end.Steps:
		if f.firstUnshared, err = f.plan.LocateStep(ctx, f.step); err != nil {
			return fmt.Errorf("find step %d: %w", f.step, err)
		}
	}
	f.parent.State, err = f.plan.ForkState(ctx, old)
	return err
}

// checkDocuments returns an error for a configuration that gives the parent's documents other tokens, or cannot decode
// them. Buffered documents are counted in tokens.
func checkDocuments(old planrecord.Header, c runconfig.Config) error {
	if err := checkTokens(old, c); err != nil {
		return err
	}
	if lost := c.Documents.IncompatibleSettings(old.Config.Documents); len(lost) > 0 {
		return &fault.Error{Reason: fault.PlanMismatch,
			Message: fmt.Sprintf("run %s reads documents that the new run could not decode, by %s", old.Run,
				strings.Join(lost, ", ")),
			Advice: "keep these; leave out a column or value that is no longer wanted with documents.columns.NAME.type: none"}
	}
	return nil
}

// checkTokens returns an error for another tokenizer or other transformations of documents.
func checkTokens(old planrecord.Header, c runconfig.Config) error {
	if !old.Config.HasSameTokens(c) {
		return &fault.Error{Reason: fault.PlanMismatch,
			Message: fmt.Sprintf("run %s makes other tokens of its documents than the new run (%s): what is left of "+
				"documents that were used in part is counted in tokens",
				old.Run, strings.Join(old.Config.Differences(c), "; ")),
			Advice: "keep documents.bos, documents.fim and documents.max_tokens, and with documents.fim the seed, or begin a " +
				"run " +
				"that is no fork"}
	}
	a, b := old.Config.Tokenizer, c.Tokenizer
	if a.Fingerprint == b.Fingerprint && a.End == b.End {
		return nil
	}
	return &fault.Error{Reason: fault.PlanMismatch,
		Message: fmt.Sprintf("run %s has tokenizer %s (end %d), the new run %s (end %d): what is left of documents that "+
			"were used in part is counted in tokens",
			old.Run, a.Name, a.End, b.Name, b.End),
		Advice: "keep the tokenizer, or begin a run that is no fork"}
}

// restorePlanner creates the planner from the newest checkpoint that covers no document after those of the previous
// steps, or else for the start of the run. The fork depends on which checkpoints exist only if the documents that this
// planner requires are purged: then fork uses laterPlanner.
func (f *forking) restorePlanner(ctx context.Context) error {
	begin, err := f.startPosition(ctx)
	if err != nil {
		return err
	}
	stored, err := planview.ListCheckpoints(ctx, f.from, f.firstUnshared <= 1)
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(stored) {
		b, err := f.from.Checkpoints.Get(ctx, s.Name)
		if err != nil {
			return fmt.Errorf("read checkpoint %s: %w", s.Name, err)
		}
		c, fits := f.plan.MatchCheckpoint(ctx, f.parent, b, f.firstUnshared-1)
		if !fits {
			continue
		}
		a, err := planner.Restore(f.parent, c)
		// after the end of the run, the planner no longer holds what was dropped there
		if err != nil || a.Planner.Next() > f.step || a.Planner.Ended() {
			continue
		}
		found := restoredPlanner{a, c.Tail.Position}
		if begin.Reaches(a.Planner.Cursor()) {
			f.restoredPlanner = found
			return nil
		}
		f.laterPlanner = &found
	}
	f.position = 1
	f.applier, err = planner.NewApplier(f.parent)
	return err
}

// startPosition returns the position after the documents that the previous steps were made from.
func (f *forking) startPosition(ctx context.Context) (plan.Position, error) {
	if f.step == 0 {
		return plan.Position{}, nil
	}
	s, err := f.plan.Step(ctx, f.step-1)
	if err != nil {
		return plan.Position{}, fmt.Errorf("read step %d: %w", f.step-1, err)
	}
	return s.Cursor, nil
}

// checkStreams returns an error if the streams are not the parent's, or lack documents that are needed to plan it
// again.
func (f *forking) checkStreams(ctx context.Context) error {
	planner := f.applier.Planner
	f.streams.AddSources(planner.Infos())
	first, err := f.streams.CheckStreams(ctx, f.parent)
	if err != nil {
		return err
	}
	infos := planner.Infos()
	for i, s := range planner.Mixture().Status() {
		need := infos[i].LowWatermark(planner.Mixture().Position(i))
		if s.Removed || s.Exhausted || first[i] <= need {
			continue
		}
		return &fault.Error{Reason: fault.DocumentLost,
			Message: fmt.Sprintf(
				"to plan step %d of run %s again takes documents of source %s from %d on, and its stream begins at %d", f.step,
				f.parent.Run, s.Name, need, first[i]),
			Advice: "fork at a later step, behind a checkpoint of the run: it keeps the newest three",
			Facts:  map[string]string{"source": s.Name}}
	}
	return nil
}

// replan plans the parent again, up to the last record before the step.
func (f *forking) replan(ctx context.Context) error {
	order := f.parent.Validator()
	if f.position > 1 {
		order = f.applier.Validator(&f.parent.Config)
	}
	f.applier.Planner.PrepareFork(f.step)
	a := auditor{log: f.from.Log, plan: f.plan, applier: f.applier, run: f.parent.Run}
	return a.replan(ctx, f.streams, func(ctx context.Context) *replay.Replay {
		return replay.Start(ctx, logPrefix{f.from.Plan, f.firstUnshared}, f.position+1, f.applier, order)
	})
}

// addedSources returns the beginnings of the sources that the new configuration adds.
func (f *forking) addedSources(ctx context.Context, known []plan.SourceInfo,
	c runconfig.Config) (more []plan.SourceBegin, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if slices.ContainsFunc(known, func(s plan.SourceInfo) bool { return s.Name == name }) {
			continue
		}
		b, err := f.streams.SourceBegin(ctx, name, c.Sources[name])
		if err != nil {
			return nil, err
		}
		more = append(more, b)
	}
	return more, nil
}

// logPrefix is the part of a plan log before a record.
type logPrefix struct {
	backend.PlanLog
	end uint64
}

// Scan implements PlanLog.
func (l logPrefix) Scan(ctx context.Context, from uint64, f func(at uint64, record []byte) error) error {
	if from >= l.end {
		return nil
	}
	err := l.PlanLog.Scan(ctx, from, func(at uint64, record []byte) error {
		if at >= l.end {
			return planview.ErrStopScan
		}
		return f(at, record)
	})
	if errors.Is(err, planview.ErrStopScan) {
		return nil
	}
	return err
}
