package plan

import "fmt"

// Ready is what an applier's caller has to do before it gives the applier anything else.
type Ready struct {
	// Steps are to be appended to the plan, or compared with the steps that it holds. They are valid until the applier's next input.
	Steps []Step
	// Ended says that no step follows: End is to be recorded behind Steps.
	Ended bool
}

// Applier gives a planner documents and controls in the only order there is: behind each document the controls that were recorded for it,
// in the order of their records. Live planning, replay and audit all use one; they differ in where the inputs come from and where the
// steps go. Like the planner it is pure, and not safe for concurrent use.
type Applier struct {
	Planner *Planner
	Pending []Control // recorded, and not in effect yet
	Keepers Keepers   // the map is replaced, never changed
	End     *End      // nil until it is recorded
	Ended   bool      // no document is taken any more
	Fed     int64     // tokens of used documents, less what a parent had used of them; with several sources what waited there counts
}

// Begin returns the applier of a run at its beginning.
func (h Header) Begin() (*Applier, error) {
	p, err := h.NewPlanner()
	if err != nil {
		return nil, err
	}
	return &Applier{Planner: p, Keepers: Keepers{}, Fed: p.accounted()}, nil
}

// Record takes an entry that the log holds or is about to hold. A control takes effect when the planner has seen its document.
func (a *Applier) Record(e Entry) {
	switch e := e.(type) {
	case Control:
		if !a.Ended { // the sources of a run that are sealed at once: the end of one may be that of the run
			a.Pending = append(a.Pending, e)
		}
	case Commit, Leave:
		a.Keepers = a.Keepers.Changed(e)
	case End:
		a.End = &e
	}
}

// Document tells the planner of the next document. Controls that are due come first.
func (a *Applier) Document(d Arrival) (Ready, error) {
	switch {
	case a.Ended:
		return Ready{}, fmt.Errorf("plan document %d: the run has ended behind document %d", d.Sequence, a.Planner.Clock())
	case a.Planner.Inherits():
		return Ready{}, fmt.Errorf("plan document %d: what the run inherited comes first", d.Sequence)
	case a.due():
		return Ready{}, fmt.Errorf("plan document %d: %s comes first", d.Sequence, a.Pending[0])
	}
	steps, err := a.Planner.Add(d)
	if err != nil {
		return Ready{}, err
	}
	a.Fed += a.Planner.used
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
		return Ready{}, fmt.Errorf("plan log: a control takes effect behind document %d, but the plan is at document %d", c.Behind(), now)
	}
	a.Pending = a.Pending[1:]
	steps, ends, err := c.apply(a.Planner)
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

// Settle takes what a fork begins with, and lets all controls take effect that are due, one by one; do carries out what each returns. do may record further
// controls: the log may hold another one for the same document behind the steps of the first.
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

// Resume is called behind the last record of the log. The run has ended if that is the End and no control is pending; with several sources if the planner says
// so, too: where no End is recorded, what waits still has to be packed.
func (a *Applier) Resume() {
	if a.Planner.Mixture() != nil {
		a.over(a.End != nil && a.Planner.Ended())
		return
	}
	a.Ended = a.Ended || a.End != nil && len(a.Pending) == 0
}

// Sealed returns the sequence of the run's last document once a Seal is recorded.
func (a *Applier) Sealed() (uint64, bool) {
	if a.Ended {
		return a.Planner.Clock(), true
	}
	for _, c := range a.Pending {
		if s, ok := c.(Seal); ok {
			return s.At, true
		}
	}
	return 0, false
}
