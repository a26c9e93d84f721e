package planner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// Ready is what the caller of an applier has to do before the next input.
type Ready struct {
	// Steps have to be appended to the plan, or compared with the steps that it holds. They are valid until the
	// applier's next input.
	Steps []plan.Step
	// Ended reports that no step follows. The caller records End after Steps.
	Ended bool
}

// Applier feeds a planner documents and controls in the only valid order. Each arrival is followed by the controls
// that were recorded for it, in the order of their records. Live planning, replay and audit all use an Applier; they
// differ in the origin of the inputs and the destination of the steps. Like the planner, it is pure and not safe for
// concurrent use.
type Applier struct {
	Planner    *Planner
	Pending    []planrecord.Control  // recorded but not in effect yet, in the order in which they take effect
	Commits    planrecord.Commits    // the map is replaced, never changed
	WorldSizes planrecord.WorldSizes // as Commits
	End        *planrecord.End       // nil until it is recorded
	Ended      bool                  // no further document is accepted
	UsedTokens int64                 // tokens of used documents; in a fork, including those buffered in its parent
}

// NewApplier returns the applier of a run at its start.
func NewApplier(h planrecord.Header) (*Applier, error) {
	p, err := New(h)
	if err != nil {
		return nil, err
	}
	return &Applier{Planner: p, Commits: planrecord.Commits{}, UsedTokens: p.usedTokens()}, nil
}

// Record receives an entry that the log holds or is about to hold. A control takes effect once the planner has
// processed its document.
func (a *Applier) Record(e planrecord.Entry) {
	switch e := e.(type) {
	case planrecord.Control:
		if !a.Ended { // if sources are sealed together, the end of one may end the run
			a.Pending = append(slices.Clip(a.Pending), e)
			slices.SortStableFunc(a.Pending, func(x, y planrecord.Control) int {
				return cmp.Compare(x.EffectiveAfter(), y.EffectiveAfter())
			})
		}
	case planrecord.Commit, planrecord.Leave:
		a.Commits, a.WorldSizes = a.Commits.WithEntry(e), a.WorldSizes.WithEntry(e)
	case planrecord.Resize:
		a.WorldSizes = a.WorldSizes.WithEntry(e)
	case planrecord.End:
		a.End = &e
	}
}

// AddDocument passes the next document to the planner. It fails if a control is due first.
func (a *Applier) AddDocument(d plan.Arrival) (Ready, error) {
	switch {
	case a.Ended:
		return Ready{}, fmt.Errorf("plan document %d: the run has ended behind arrival %d", d.Sequence, a.Planner.Clock())
	case a.Planner.HasInheritance():
		return Ready{}, fmt.Errorf("plan document %d: documents that the run inherited must be added first", d.Sequence)
	case a.isControlDue():
		return Ready{}, fmt.Errorf("plan document %d: %s must be applied first", d.Sequence, a.Pending[0])
	}
	steps, err := a.Planner.Add(d)
	if err != nil {
		return Ready{}, err
	}
	a.UsedTokens += a.Planner.lastTokens
	a.endRunIf(a.Planner.Ended())
	return Ready{Steps: steps, Ended: a.Ended}, nil
}

// isControlDue reports whether a control takes effect before the next document.
func (a *Applier) isControlDue() bool {
	return !a.Ended && len(a.Pending) > 0 && a.Pending[0].EffectiveAfter() <= a.Planner.Clock()
}

// applyNextControl applies the first control that is due.
func (a *Applier) applyNextControl() (Ready, error) {
	c := a.Pending[0]
	if now := a.Planner.Clock(); c.EffectiveAfter() < now {
		return Ready{}, fmt.Errorf("plan log: a control takes effect behind arrival %d, but the plan is at arrival %d",
			c.EffectiveAfter(), now)
	}
	a.Pending = a.Pending[1:]
	steps, ends, err := a.Planner.applyControl(c)
	if err != nil {
		return Ready{}, fmt.Errorf("plan log: %s: %w", c, err)
	}
	a.endRunIf(ends)
	return Ready{Steps: steps, Ended: ends}, nil
}

// endRunIf ends the run if ends is true. After that no control takes effect.
func (a *Applier) endRunIf(ends bool) {
	if ends {
		a.Ended, a.Pending = true, nil
	}
}

// ApplyPending applies what a fork inherits, then all controls that are due, one by one. It calls do with the result of
// each. do may record further controls: the log may hold another control for the same document after the steps of the
// first.
func (a *Applier) ApplyPending(do func(Ready) error) error {
	if a.Planner.HasInheritance() {
		steps := a.Planner.ApplyInheritance()
		a.endRunIf(a.Planner.Ended())
		if err := do(Ready{Steps: steps, Ended: a.Ended}); err != nil {
			return err
		}
	}
	for a.isControlDue() {
		ready, err := a.applyNextControl()
		if err != nil {
			return err
		}
		if err := do(ready); err != nil {
			return err
		}
	}
	if !a.Ended && a.Planner.Ended() { // all sources were sealed and empty when the run started
		a.endRunIf(true)
		return do(Ready{Steps: a.Planner.Seal(), Ended: true})
	}
	return nil
}

// FinishReplay is called after the last record of the log. The run has ended if that record is the End and no source
// has a document left. Without a recorded End, the buffered documents still have to be packed.
func (a *Applier) FinishReplay() { a.endRunIf(a.End != nil && a.Planner.Ended()) }

// applyControl applies a control and returns the steps that it completes. ends reports that no document follows.
func (p *Planner) applyControl(c planrecord.Control) (steps []plan.Step, ends bool, err error) {
	switch c := c.(type) {
	case planrecord.Flush:
		return p.Flush(), false, nil
	case planrecord.Mix:
		return p.applyMixtureChange(func(m *mixture.Mixture) error {
			if err := p.config.CheckChange(m, &p.schedule, c.Change); err != nil {
				return err
			}
			if !slices.EqualFunc(c.SourceBegins, slices.Sorted(maps.Keys(c.Add)), func(b plan.SourceBegin, name string) bool {
				return b.Name == name
			}) {
				return errors.New("it must state where each added source begins, in the order of their names")
			}
			return m.ApplyChange(c.Change, sourceRanges(c.SourceBegins))
		}, c.Infos()...)
	case planrecord.Filter:
		return nil, false, p.Filters.set(c.Source, c.Where)
	case planrecord.Schedule:
		steps, err := p.applySchedule(c.Phases)
		return steps, false, err
	case planrecord.SealSource:
		return p.applyMixtureChange(func(m *mixture.Mixture) error { return m.Seal(c.Source, c.Last) })
	case planrecord.Rest:
		return p.applyMixtureChange(func(m *mixture.Mixture) error { return m.Rest(c.Source, c.Rests) })
	}
	return nil, false, fmt.Errorf("a record of kind %d is no control", c.Kind())
}

// Validator returns the validator of the records that follow the last record of the applier.
func (a *Applier) Validator(c *runconfig.Config) planrecord.Validator {
	return planrecord.NewValidatorAt(planrecord.Progress{
		Config: c, Schedule: a.Planner.Schedule(), Steps: a.Planner.Next(), Ended: a.End != nil,
		Sources: a.Planner.Infos(), SourceStatus: a.Planner.Mixture().Status(), Pending: a.Pending,
		WorldSizes: a.WorldSizes,
	})
}
