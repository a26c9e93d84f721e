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

// Ready is what an applier's caller has to do before it gives the applier anything else.
type Ready struct {
	// Steps are to be appended to the plan, or compared with the steps that it holds. They are valid until the applier's
	// next input.
	Steps []plan.Step
	// Ended says that no step follows: End is to be recorded behind Steps.
	Ended bool
}

// Applier gives a planner documents and controls in the only order there is: behind each arrival the controls that were
// recorded for it, in the order of their records. Live planning, replay and audit all use one; they differ in where the
// inputs come from and where the steps go. Like the planner it is pure, and not safe for concurrent use.
type Applier struct {
	Planner *Planner
	Pending []planrecord.Control // recorded, and not in effect yet, in the order in which they take effect
	Keepers planrecord.Keepers   // the map is replaced, never changed
	End     *planrecord.End      // nil until it is recorded
	Ended   bool                 // no document is taken any more
	Fed     int64                // tokens of used documents; of a fork, with those that waited in its parent
}

// NewApplier returns the applier of a run at its beginning.
func NewApplier(h planrecord.Header) (*Applier, error) {
	p, err := New(h)
	if err != nil {
		return nil, err
	}
	return &Applier{Planner: p, Keepers: planrecord.Keepers{}, Fed: p.accounted()}, nil
}

// Record takes an entry that the log holds or is about to hold. A control takes effect when the planner has seen its
// document.
func (a *Applier) Record(e planrecord.Entry) {
	switch e := e.(type) {
	case planrecord.Control:
		if !a.Ended { // of sources that are sealed at once, the end of one may be that of the run
			a.Pending = append(slices.Clip(a.Pending), e)
			slices.SortStableFunc(a.Pending, func(x, y planrecord.Control) int { return cmp.Compare(x.Behind(), y.Behind()) })
		}
	case planrecord.Commit, planrecord.Leave:
		a.Keepers = a.Keepers.Changed(e)
	case planrecord.End:
		a.End = &e
	}
}

// Document tells the planner of the next document. Controls that are due come first.
func (a *Applier) Document(d plan.Arrival) (Ready, error) {
	switch {
	case a.Ended:
		return Ready{}, fmt.Errorf("plan document %d: the run has ended behind arrival %d", d.Sequence, a.Planner.Clock())
	case a.Planner.Inherits():
		return Ready{}, fmt.Errorf("plan document %d: what the run inherited comes first", d.Sequence)
	case a.due():
		return Ready{}, fmt.Errorf("plan document %d: %s comes first", d.Sequence, a.Pending[0])
	}
	steps, err := a.Planner.Add(d)
	if err != nil {
		return Ready{}, err
	}
	a.Fed += a.Planner.taken
	a.over(a.Planner.Ended())
	return Ready{Steps: steps, Ended: a.Ended}, nil
}

// due reports whether a control takes effect before the next document.
func (a *Applier) due() bool {
	return !a.Ended && len(a.Pending) > 0 && a.Pending[0].Behind() <= a.Planner.Clock()
}

// control lets the first control that is due take effect.
func (a *Applier) control() (Ready, error) {
	c := a.Pending[0]
	if now := a.Planner.Clock(); c.Behind() < now {
		return Ready{}, fmt.Errorf("plan log: a control takes effect behind arrival %d, but the plan is at arrival %d",
			c.Behind(), now)
	}
	a.Pending = a.Pending[1:]
	steps, ends, err := a.Planner.apply(c)
	if err != nil {
		return Ready{}, fmt.Errorf("plan log: %s: %w", c, err)
	}
	a.over(ends)
	return Ready{Steps: steps, Ended: ends}, nil
}

// over ends the run, where it does: no control takes effect any more.
func (a *Applier) over(ends bool) {
	if ends {
		a.Ended, a.Pending = true, nil
	}
}

// Settle takes what a fork begins with, and lets all controls take effect that are due, one by one; do carries out what
// each returns. do may record further controls: the log may hold another one for the same document behind the steps of
// the first.
func (a *Applier) Settle(do func(Ready) error) error {
	if a.Planner.Inherits() {
		steps := a.Planner.Inherit()
		a.over(a.Planner.Ended())
		if err := do(Ready{Steps: steps, Ended: a.Ended}); err != nil {
			return err
		}
	}
	for a.due() {
		ready, err := a.control()
		if err != nil {
			return err
		}
		if err := do(ready); err != nil {
			return err
		}
	}
	if !a.Ended && a.Planner.Ended() { // all sources were sealed and empty when the run began
		a.over(true)
		return do(Ready{Steps: a.Planner.Seal(), Ended: true})
	}
	return nil
}

// Resume is called behind the last record of the log. The run has ended if that is the End and no source has a document
// left: where no End is recorded, what waits still has to be packed.
func (a *Applier) Resume() { a.over(a.End != nil && a.Planner.Ended()) }

// apply lets a control take effect and returns the steps that it completes; ends says that no document follows.
func (p *Planner) apply(c planrecord.Control) (steps []plan.Step, ends bool, err error) {
	switch c := c.(type) {
	case planrecord.Drain:
		return p.Drain(), false, nil
	case planrecord.Mix:
		return p.change(func(m *mixture.Mixture) error {
			if err := p.config.CheckChange(m, c.Change); err != nil {
				return err
			}
			if !slices.EqualFunc(c.Begins, slices.Sorted(maps.Keys(c.Add)), func(b plan.SourceBegin, name string) bool {
				return b.Name == name
			}) {
				return errors.New("it does not say where each source that it adds begins, in the order of their names")
			}
			return m.Change(c.Change, begins(c.Begins))
		}, c.Infos()...)
	case planrecord.SealSource:
		return p.change(func(m *mixture.Mixture) error { return m.Seal(c.Source, c.Last) })
	case planrecord.Rest:
		return p.change(func(m *mixture.Mixture) error { return m.Rest(c.Source, c.Rests) })
	}
	return nil, false, fmt.Errorf("a record of kind %d is no control", c.Kind())
}

// Validator returns the validator of the records behind the last one that the applier has taken.
func (a *Applier) Validator(c *runconfig.Config) planrecord.Validator {
	return planrecord.NewValidatorAt(planrecord.Progress{
		Config: c, Steps: a.Planner.Next(), Ended: a.End != nil,
		Sources: a.Planner.Infos(), States: a.Planner.Mixture().Status(), Pending: a.Pending,
	})
}
