package plan

import (
	"fmt"

	"loaderd/packonline"
)

// Order follows a plan's records through the log and refuses one that cannot stand where it does: behind it all records would be misread.
type Order struct {
	Steps uint64 // complete steps so far
	Ended bool
}

// Step takes the next complete step.
func (o *Order) Step(s *Step) error {
	switch {
	case o.Ended:
		return fmt.Errorf("step %d follows behind the end of the run", s.Index)
	case s.Index != o.Steps:
		return fmt.Errorf("step %d stands where step %d should", s.Index, o.Steps)
	}
	o.Steps++
	return nil
}

// Between takes a record that stands between steps.
func (o *Order) Between(e Entry) error {
	switch e := e.(type) {
	case Header:
		return fmt.Errorf("a header stands behind %d steps", o.Steps)
	case Commit:
		if e.Step > o.Steps {
			return fmt.Errorf("keeper %q commits all steps before %d, and %d steps stand before that record", e.Keeper, e.Step, o.Steps)
		}
	case End:
		if o.Ended || e.Steps != o.Steps {
			return fmt.Errorf("it ends the run with %d steps, and %d steps stand before it", e.Steps, o.Steps)
		}
		o.Ended = true
	case Control:
		if o.Ended {
			return fmt.Errorf("a record of kind %d follows behind the end of the run", e.Kind())
		}
	}
	return nil
}

// Joiner puts the parts of a step together.
type Joiner struct {
	Step *Step // the step that has begun; nil between steps
	next int
}

// Add takes the next record of a step and returns the step when it is complete.
func (j *Joiner) Add(e Entry) (*Step, error) {
	p, ok := e.(StepPart)
	if !ok {
		return nil, fmt.Errorf("kind %d where part %d of a step should be", e.Kind(), j.next)
	}
	if p.Part != j.next || (j.Step == nil) != (p.Part == 0) || (j.Step != nil && (j.Step.Index != p.Index || len(j.Step.Rows) != p.First)) {
		return nil, fmt.Errorf("part %d of step %d stands where part %d should", p.Part, p.Index, j.next)
	}
	if j.Step == nil {
		j.Step = &Step{Index: p.Index, Bucket: p.Bucket, Cursor: p.Cursor, Floor: p.Floor, Rows: make([][]packonline.Piece, 0, p.Total)}
	}
	j.Step.Rows = append(j.Step.Rows, p.Rows...)
	j.next++
	if j.next < p.Parts {
		return nil, nil
	}
	s := j.Step
	if len(s.Rows) != p.Total {
		return nil, fmt.Errorf("step %d has %d rows of %d", s.Index, len(s.Rows), p.Total)
	}
	*j = Joiner{}
	return s, nil
}
