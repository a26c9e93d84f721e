package plan

import (
	"fmt"
	"maps"
)

// Ready is what has to be done outside for what an applier was given, before it is given anything else.
type Ready struct {
	// Steps are to be appended to the plan, or to be compared with those that it holds. They are valid until the applier's next input.
	Steps []Step
	// Ended says that no step follows: End is to be recorded behind Steps.
	Ended bool
}

// Applier gives a planner documents and controls in the only order there is: behind each document the controls that were recorded for it,
// in the order of their records. Whoever plans (live, in a replay, in an audit) does it with one; only where the inputs come from and
// where the steps go is theirs. Like the planner it is pure, and not safe for concurrent use.
type Applier struct {
	Planner *Planner
	Pending []Control // recorded, and not in effect yet
	Keepers Keepers   // never changed, but replaced
	End     *End      // recorded; nil while it is not
	Ended   bool      // no document is taken any more
	Fed     int64     // tokens of used documents, less what a parent had used of them
}

// Begin returns the applier of a run at its beginning.
func (h Header) Begin() (*Applier, error) {
	p, err := h.NewPlanner()
	return &Applier{Planner: p, Keepers: Keepers{}}, err
}

// Record takes an entry that stands in the log, or is about to: its effect comes when the planner is there.
func (a *Applier) Record(e Entry) {
	switch e := e.(type) {
	case Control:
		a.Pending = append(a.Pending, e)
	case Commit:
		a.Keepers = maps.Clone(a.Keepers)
		a.Keepers[e.Keeper], _ = a.Keepers.After(e)
	case Leave:
		a.Keepers = maps.Clone(a.Keepers)
		delete(a.Keepers, e.Keeper)
	case End:
		a.End = &e
	}
}

// Document tells the planner of the next document. Controls that are due come first.
func (a *Applier) Document(d Arrival) (Ready, error) {
	switch {
	case a.Ended:
		return Ready{}, fmt.Errorf("plan document %d: the run has ended behind document %d", d.Sequence, a.Planner.Clock())
	case a.due():
		return Ready{}, fmt.Errorf("plan document %d: %s comes first", d.Sequence, a.Pending[0])
	}
	before := a.Planner.counts.Duplicates
	steps, err := a.Planner.Add(d)
	if err != nil {
		return Ready{}, err
	}
	if d.Skip == "" && a.Planner.counts.Duplicates == before {
		a.Fed += int64(a.Planner.parent.rest(d.Sequence, int32(d.Length)))
	}
	return Ready{Steps: steps}, nil
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
	steps, ends := c.apply(a.Planner)
	a.Ended = ends
	return Ready{Steps: steps, Ended: ends}, nil
}

// Settle lets all controls take effect that are due. do does what is ready, and may record further entries: the log may hold the next
// control for the same document behind the steps of the one before.
func (a *Applier) Settle(do func(Ready) error) error {
	for a.due() {
		ready, err := a.control()
		if err != nil {
			return err
		}
		if err := do(ready); err != nil {
			return err
		}
	}
	return nil
}

// Resume is told that the log holds nothing more: where its end is recorded and nothing is left to be done before it, the planner was
// restored from behind it.
func (a *Applier) Resume() { a.Ended = a.Ended || a.End != nil && len(a.Pending) == 0 }

// Sealed returns the last document of the run, once that is decided.
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
