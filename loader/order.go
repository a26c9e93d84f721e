package loader

import "fmt"

// order counts a plan's records as they stand in the log and refuses one that cannot stand where it does: everything behind it would be
// taken for something that it is not.
type order struct {
	steps uint64 // complete so far
	ended bool
}

// step takes the next complete step.
func (o *order) step(s *Step) error {
	switch {
	case o.ended:
		return fmt.Errorf("step %d follows behind the end of the run", s.Index)
	case s.Index != o.steps:
		return fmt.Errorf("step %d stands where step %d should", s.Index, o.steps)
	}
	o.steps++
	return nil
}

// between takes a record that stands between steps.
func (o *order) between(e Entry) error {
	switch e := e.(type) {
	case Header:
		return fmt.Errorf("a header stands behind %d steps", o.steps)
	case Commit:
		if e.Step > o.steps {
			return fmt.Errorf("keeper %q commits all steps before %d, and %d steps stand before that record", e.Keeper, e.Step, o.steps)
		}
	case End:
		if o.ended || e.Steps != o.steps {
			return fmt.Errorf("it ends the run with %d steps, and %d steps stand before it", e.Steps, o.steps)
		}
		o.ended = true
	case Control:
		if o.ended {
			return fmt.Errorf("a record of kind %d follows behind the end of the run", e.kind())
		}
	}
	return nil
}

// damaged says that a record of the plan cannot be used, and what is to be done.
func damaged(at uint64, err error) error {
	return fmt.Errorf("plan record %d: %w; the plan log is damaged there: restore its stream from a backup, or copy what stands before it into a usable plan with loaderd repair", at, err)
}
