package loader

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

// applier gives a planner documents and controls in the only order there is: behind each document the controls that were recorded for it,
// in the order of their records. Whoever plans (live, in a replay, in an audit) does it with one; only where the inputs come from and
// where the steps go is theirs. Like the planner it is pure, and not safe for concurrent use.
type applier struct {
	planner *Planner
	pending []Control // recorded, and not in effect yet
	keepers Keepers   // never changed, but replaced
	end     *End      // recorded; nil while it is not
	ended   bool      // no document is taken any more
	fed     int64     // tokens of used documents, less what a parent had used of them
}

func newApplier(p *Planner) *applier { return &applier{planner: p, keepers: Keepers{}} }

// record takes an entry that stands in the log, or is about to: its effect comes when the planner is there.
func (a *applier) record(e Entry) {
	switch e := e.(type) {
	case Control:
		a.pending = append(a.pending, e)
	case Commit:
		a.keepers = maps.Clone(a.keepers)
		a.keepers[e.Keeper], _ = a.keepers.after(e)
	case Leave:
		a.keepers = maps.Clone(a.keepers)
		delete(a.keepers, e.Keeper)
	case End:
		a.end = &e
	}
}

// document gives the planner its next document. Controls that are due come first.
func (a *applier) document(d Document) (Ready, error) {
	if a.due() {
		return Ready{}, fmt.Errorf("plan document %d: %s comes first", d.Sequence, a.pending[0])
	}
	before := a.planner.counts.Duplicates
	steps, err := a.planner.Add(Arrival{Sequence: d.Sequence, ID: d.ID, Length: d.Len(), Skip: d.Skip, Traits: d.Traits})
	if err != nil {
		return Ready{}, err
	}
	if d.Skip == "" && a.planner.counts.Duplicates == before {
		a.fed += int64(a.planner.parent.rest(d.Sequence, int32(d.Len())))
	}
	return Ready{Steps: steps}, nil
}

// due reports whether a control takes effect before the next document.
func (a *applier) due() bool {
	return !a.ended && len(a.pending) > 0 && a.pending[0].behind() <= a.planner.Clock()
}

// control lets the first control that is due take effect.
func (a *applier) control() (Ready, error) {
	c := a.pending[0]
	if now := a.planner.Clock(); c.behind() < now {
		return Ready{}, fmt.Errorf("plan log: a control takes effect behind document %d, but the plan is at document %d", c.behind(), now)
	}
	a.pending = a.pending[1:]
	steps, ends := c.apply(a.planner)
	a.ended = ends
	return Ready{Steps: steps, Ended: ends}, nil
}

// settle lets all controls take effect that are due. do does what is ready, and may record further entries: the log may hold the next
// control for the same document behind the steps of the one before.
func (a *applier) settle(do func(Ready) error) error {
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

// resume is told that the log holds nothing more: where its end is recorded and nothing is left to be done before it, the planner was
// restored from behind it.
func (a *applier) resume() { a.ended = a.ended || a.end != nil && len(a.pending) == 0 }

// sealed returns the last document of the run, once that is decided.
func (a *applier) sealed() (uint64, bool) {
	if a.ended {
		return a.planner.Clock(), true
	}
	for _, c := range a.pending {
		if s, ok := c.(Seal); ok {
			return s.Behind, true
		}
	}
	return 0, false
}
