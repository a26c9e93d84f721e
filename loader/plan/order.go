package plan

import (
	"fmt"
	"slices"

	"loaderd/packonline"
)

// Order follows a plan's records through the log and refuses one that cannot stand where it does: behind it all records would be misread.
// Whoever can write to the log may have put anything there, so it holds each record against all that it knows of those before: only a
// record that a leader could have written at its place is followed. The zero Order knows nothing of what stands before.
type Order struct {
	Steps uint64 // complete steps so far
	Ended bool
	// Known says that it is known what stands before, whether a seal does or a term: then a record that takes one is refused without.
	Known  bool
	Led    bool // a term has begun
	Sealed bool
	// Config is that of the run, whose steps have its shape; nil where it is not known.
	Config *Config

	sources []SourceInfo // of a run with several, those that were removed among them
	parts   uint64       // of a Heritage, that follow
	part    uint64       // the next of them

	cursor Position // of the last step
	floor  Position // likewise
	behind uint64   // the document behind which the last control takes effect
}

// Order is that of the records behind the header.
func (h Header) Order() Order {
	o := Order{Known: true, Config: &h.Config, sources: h.Infos()}
	if h.Heir() {
		o.parts = h.Parent.Records
	}
	return o
}

// Order is that of the records behind the last one that the applier has taken.
func (a *Applier) Order(c *Config) Order {
	o := Order{Steps: a.Planner.Next(), Known: true, Led: true, Ended: a.End != nil, Config: c}
	if m := a.Planner.Mixture(); m != nil {
		o.sources, o.Sealed = a.Planner.Infos(), m.Ended()
	}
	for _, p := range a.Pending {
		o.sees(p)
	}
	return o
}

// Infos returns the sources of the run so far, in the order of their numbers.
func (o *Order) Infos() []SourceInfo { return o.sources }

// Step takes the next complete step.
func (o *Order) Step(s *Step) error {
	switch {
	case o.Ended:
		return fmt.Errorf("step %d follows behind the end of the run", s.Index)
	case s.Index != o.Steps:
		return fmt.Errorf("step %d stands where step %d should", s.Index, o.Steps)
	case o.Known && !o.Led:
		return fmt.Errorf("step %d stands before any daemon has begun to lead", s.Index)
	case !s.Cursor.Reaches(o.cursor) || !s.Floor.Reaches(o.floor):
		return fmt.Errorf("step %d goes back: it was made behind document %s with floor %d, the one before it behind %s with floor %d",
			s.Index, s.Cursor, s.Floor.Next(), o.cursor, o.floor.Next())
	case !s.Cursor.Reaches(s.Floor):
		return fmt.Errorf("step %d was made behind document %s, and its floor is %d", s.Index, s.Cursor, s.Floor.Next())
	case o.Sealed && !Behind(o.behind).Reaches(s.Cursor):
		return fmt.Errorf("step %d was made behind document %s, and the run is sealed behind %d", s.Index, s.Cursor, o.behind)
	}
	if err := o.shape(s); err != nil {
		return err
	}
	o.cursor, o.floor = s.Cursor, s.Floor
	o.Steps++
	return nil
}

// shape refuses a step that is none of the run's, whatever the documents are: who assembles it would read other tokens, or run out of memory.
func (o *Order) shape(s *Step) error {
	if o.Config != nil && !o.Config.hasStep(int(s.Bucket), len(s.Rows)) {
		return fmt.Errorf("step %d has %d rows of %d, as no step of the run has", s.Index, len(s.Rows), s.Bucket)
	}
	if o.Config != nil && s.Mixed != o.Config.Mixed() {
		return fmt.Errorf("step %d names documents in another way than the run does", s.Index)
	}
	for i, row := range s.Rows {
		tokens := int64(0)
		for _, p := range row {
			tokens += int64(p.Length)
			if s.Mixed { // whether the source was read so far follows when the plan is made again
				if source := RefSource(p.Doc); o.Config != nil && source >= len(o.sources) {
					return fmt.Errorf("row %d of step %d names source %d, and the run has %d", i, s.Index, source, len(o.sources))
				}
				continue
			}
			if p.Doc == 0 || !s.Cursor.Covers(p.Doc) || o.floor.Covers(p.Doc) {
				return fmt.Errorf("row %d of step %d names document %d: the step was made behind document %s, and those up to %s were used up before it",
					i, s.Index, p.Doc, s.Cursor, o.floor)
			}
		}
		if tokens > int64(s.Bucket) {
			return fmt.Errorf("row %d of step %d has %d tokens of %d", i, s.Index, tokens, s.Bucket)
		}
	}
	return nil
}

// hasStep reports whether a step of this configuration can have so many rows of a length.
func (c *Config) hasStep(bucket, rows int) bool {
	for i, want := range c.Steps.PerBucket(c.Packing.Buckets) {
		if c.Packing.Buckets[i] == bucket {
			return rows == want
		}
	}
	return false
}

// Between takes a record that stands between steps.
func (o *Order) Between(e Entry) error {
	if f, ok := e.(Foreign); ok {
		return &ForeignError{f.At}
	}
	if x, part := e.(Heritage); part && o.Known {
		return o.inherits(x)
	}
	if o.part < o.parts {
		return fmt.Errorf("a record of kind %d stands where part %d of what the run inherited should", e.Kind(), o.part)
	}
	if _, term := e.(Term); !term && o.Known && !o.Led {
		return fmt.Errorf("a record of kind %d stands before any daemon has begun to lead", e.Kind())
	}
	switch e := e.(type) {
	case Header:
		return fmt.Errorf("a header stands behind %d steps", o.Steps)
	case Term:
		o.Led = true
	case Commit:
		if e.Step > o.Steps {
			return fmt.Errorf("keeper %q commits all steps before %d, and %d steps stand before that record", e.Keeper, e.Step, o.Steps)
		}
	case End:
		switch {
		case o.Ended || e.Steps != o.Steps:
			return fmt.Errorf("it ends the run with %d steps, and %d steps stand before it", e.Steps, o.Steps)
		case o.Known && !o.Sealed && (o.Config == nil || !o.Config.Mixed()): // several sources end the run when they are used up
			return fmt.Errorf("it ends the run with %d steps, and no seal stands before it", e.Steps)
		}
		o.Ended = true
	case Control:
		return o.control(e)
	}
	return nil
}

func (o *Order) inherits(x Heritage) error {
	if o.part == o.parts || x.Part != o.part {
		return fmt.Errorf("%s stands where it cannot", x)
	}
	o.part++
	return nil
}

func (o *Order) control(c Control) error {
	switch {
	case o.Ended:
		return fmt.Errorf("a record of kind %d follows behind the end of the run", c.Kind())
	case o.Sealed:
		return fmt.Errorf("a %s follows behind a seal", c)
	case c.Behind() < o.behind || !Behind(c.Behind()).Reaches(o.cursor):
		return fmt.Errorf("a %s stands behind what takes effect behind document %d", c, max(o.behind, o.cursor.Last()))
	}
	o.sees(c)
	return nil
}

func (o *Order) sees(c Control) {
	o.behind = c.Behind()
	switch c := c.(type) {
	case Seal:
		o.Sealed = true
	case Mix:
		o.sources = append(slices.Clip(o.sources), c.Infos()...)
	}
}

// Sequence takes a plan's records one after the other: it puts the parts of steps together, and refuses what cannot stand where it does.
type Sequence struct {
	Order
	joiner Joiner
}

// Take takes the next record behind the header. It returns a step with its last part.
func (s *Sequence) Take(e Entry) (*Step, error) {
	if _, part := e.(StepPart); !part {
		if s.joiner.Step != nil {
			return nil, fmt.Errorf("step %d is cut short before it", s.joiner.Step.Index)
		}
		return nil, s.Between(e)
	}
	step, err := s.joiner.Add(e)
	if err == nil && step != nil {
		err = s.Step(step)
	}
	return step, err
}

// Cut says which step is cut short where the records end; nil without one.
func (s *Sequence) Cut() error {
	if s.joiner.Step == nil {
		return nil
	}
	return fmt.Errorf("step %d is cut short at the end of the log", s.joiner.Step.Index)
}

// Whole reports whether the last record ends a step, or stands between steps.
func (s *Sequence) Whole() bool { return s.joiner.Step == nil }

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
		j.Step = &Step{Index: p.Index, Bucket: p.Bucket, Cursor: p.Cursor, Floor: p.Floor, Mixed: p.Mixed, Places: p.Places,
			Masked: p.Masked, MaskedFirst: p.MaskedFirst, Rows: make([][]packonline.Piece, 0, p.Total)}
	}
	if p.Masked != j.Step.Masked || p.MaskedFirst != j.Step.MaskedFirst {
		return nil, fmt.Errorf("part %d of step %d counts %d tokens without a loss, the one before it %d", p.Part, p.Index, p.Masked, j.Step.Masked)
	}
	j.Step.Repeats = append(j.Step.Repeats, p.Repeats...)
	j.Step.Rows = append(j.Step.Rows, p.Rows...)
	j.next++
	if j.next < p.Parts {
		return nil, nil
	}
	s := j.Step
	if len(s.Rows) != p.Total {
		return nil, fmt.Errorf("step %d has %d rows of %d", s.Index, len(s.Rows), p.Total)
	}
	all := int64(0)
	for _, row := range s.Rows {
		all += tokens(row)
	}
	if s.Masked > all {
		return nil, fmt.Errorf("step %d has %d tokens, %d of them without a loss", s.Index, all, s.Masked)
	}
	*j = Joiner{}
	return s, nil
}
