package planrecord

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// Validator processes the records of a plan in order and rejects a record that is impossible at its position, because
// all later records would be misread. Anything with write access to the log may have added records. So each record is
// checked against all that is known of the earlier ones, and only a record that a leader could have written there is
// accepted. The zero Validator has no information about earlier records.
type Validator struct {
	Steps uint64 // complete steps so far
	Ended bool
	// FullHistory reports whether all earlier records have been processed. Then a record that requires a term, or the end
	// of a source, is rejected without it.
	FullHistory bool
	HasTerm     bool // a term has begun
	// Config is the run's configuration, which determines the shape of steps; nil if unknown.
	Config *runconfig.Config

	schedule   runconfig.Schedule // of the steps, at the next step; only with Config
	sources    []plan.SourceInfo  // including removed ones
	sourceEnds []sourceEnd        // by source
	// up to this arrival, arrival n is document n of the first source, counted from its first document
	singleSourceUntil uint64
	worldSizes        WorldSizes
	forkStateParts    uint64 // number of ForkState records
	nextForkState     uint64 // index of the next ForkState record

	cursor       plan.Position // of the last step
	lowWatermark plan.Position // of the last step
}

// sourceEnd is the end of a source, if it has one.
type sourceEnd struct {
	sealed, removed bool
	last            uint64 // last document if sealed
}

// Validator returns the validator of the records after the header.
func (h Header) Validator() Validator {
	o := Validator{FullHistory: true, Config: &h.Config, schedule: runconfig.NewSchedule(h.Config),
		sources: h.Infos()}
	if h.Parent != nil && h.Parent.Schedule != nil {
		o.schedule = *h.Parent.Schedule
	}
	for i, s := range o.sources {
		end, epoch := sourceEnd{sealed: s.Sealed, last: s.Last}, uint64(0)
		if h.Parent != nil {
			x := h.Parent.Sources[i]
			end, epoch = sourceEnd{x.Sealed, x.Removed, x.Last}, x.Epoch
		}
		o.sourceEnds = append(o.sourceEnds, end)
		if i == 0 {
			o.singleSourceUntil = findSingleSourceEnd(o.sources, epoch)
		}
	}
	if h.Parent != nil {
		o.forkStateParts = h.Parent.Records
	}
	return o
}

// Progress is the state of a plan at a position.
type Progress struct {
	Config       *runconfig.Config
	Schedule     runconfig.Schedule
	Steps        uint64 // complete steps
	Ended        bool   // End is recorded
	Sources      []plan.SourceInfo
	SourceStatus []mixture.Status // of the sources
	Pending      []Control        // recorded but not in effect yet
	WorldSizes   WorldSizes
}

// NewValidatorAt returns the validator of the records that follow in a plan with the given progress.
func NewValidatorAt(p Progress) Validator {
	o := Validator{Steps: p.Steps, FullHistory: true, HasTerm: true, Ended: p.Ended, Config: p.Config,
		schedule: p.Schedule, worldSizes: p.WorldSizes}
	o.sources = slices.Clone(p.Sources)
	for i, s := range p.SourceStatus {
		o.sourceEnds = append(o.sourceEnds, sourceEnd{s.Sealed, s.Removed, s.Last})
		if i == 0 {
			o.singleSourceUntil = findSingleSourceEnd(o.sources, s.Epoch)
		}
	}
	for _, c := range p.Pending {
		if c, ok := c.(Schedule); ok {
			_ = o.schedule.Apply(*o.Config, c.Phases) // the validator has accepted it before
		}
		o.recordControl(c)
	}
	return o
}

// findSingleSourceEnd returns the arrival up to which only the first source is read, in stream order. epoch is the
// current epoch of that source. It returns 0 if other sources are read from the start, if the first source has a drawn
// order, or if it is read more than once.
func findSingleSourceEnd(sources []plan.SourceInfo, epoch uint64) uint64 {
	switch first := &sources[0]; {
	case first.Config.Epochs != 1 || epoch > 0 || first.IsShuffled():
		return 0
	case len(sources) > 1:
		return sources[1].AddedAfter
	}
	return math.MaxUint64
}

// Infos returns the sources of the run so far, in the order of their numbers.
func (o *Validator) Infos() []plan.SourceInfo { return o.sources }

// Schedule returns the schedule of the steps, at the next step. It is empty if the configuration is unknown.
func (o *Validator) Schedule() runconfig.Schedule { return o.schedule }

// WorldSizes returns the world sizes that jobs have agreed on. The map is replaced, never changed.
func (o *Validator) WorldSizes() WorldSizes { return o.worldSizes }

// CheckStep checks the next complete step.
func (o *Validator) CheckStep(s *plan.Step) error {
	switch {
	case o.Ended:
		return fmt.Errorf("step %d follows behind the end of the run", s.Index)
	case s.Index != o.Steps:
		return fmt.Errorf("found step %d where step %d was expected", s.Index, o.Steps)
	case o.FullHistory && !o.HasTerm:
		return fmt.Errorf("step %d precedes the first term", s.Index)
	case !s.Cursor.Reaches(o.cursor) || !s.LowWatermark.Reaches(o.lowWatermark):
		return fmt.Errorf(
			"step %d goes back: it was made behind arrival %s with floor %d, the one before it behind %s with low watermark %d",
			s.Index, s.Cursor, s.LowWatermark.Next(), o.cursor, o.lowWatermark.Next())
	case !s.Cursor.Reaches(s.LowWatermark):
		return fmt.Errorf("step %d was made behind arrival %s, and its floor is %d", s.Index, s.Cursor, s.LowWatermark.Next())
	}
	tokens, err := o.checkShape(s)
	if err != nil {
		return err
	}
	if o.Config != nil {
		o.schedule.Advance(tokens)
	}
	o.cursor, o.lowWatermark = s.Cursor, s.LowWatermark
	o.Steps++
	return nil
}

// checkShape rejects a step that the run cannot have with any documents. A reader that assembles it would read other
// tokens, or run out of memory. It returns the step's tokens.
func (o *Validator) checkShape(s *plan.Step) (total int64, err error) {
	if o.Config != nil {
		bucket := slices.Index(o.schedule.Buckets(*o.Config), int(s.Bucket))
		if bucket < 0 || o.schedule.Rows()[bucket] != len(s.Rows) {
			return 0, fmt.Errorf("step %d has %d rows of %d tokens, as no step of the run has at this place",
				s.Index, len(s.Rows), s.Bucket)
		}
		if counts := s.SourceLossTokens != nil; counts != o.Config.Mix.Share.CountsLoss() ||
			len(s.SourceLossTokens) > len(o.sources) {
			return 0, fmt.Errorf("step %d counts the tokens with a loss of %d sources, as no step of the run does at this place",
				s.Index, len(s.SourceLossTokens))
		}
	}
	for i, row := range s.Rows {
		tokens := int64(0)
		for _, p := range row {
			tokens += int64(p.Length)
			if err := o.checkDocument(s, p.Doc); err != nil {
				return 0, fmt.Errorf("row %d of step %d names document %d of source %d: %w", i, s.Index, plan.RefSequence(p.Doc),
					plan.RefSource(p.Doc), err)
			}
		}
		if tokens > int64(s.Bucket) {
			return 0, fmt.Errorf("row %d of step %d has %d tokens of %d", i, s.Index, tokens, s.Bucket)
		}
		total += tokens
	}
	return total, nil
}

// checkDocument rejects a document that no step at this cursor can contain. The exact positions in several sources are
// only checked when the plan is made again.
func (o *Validator) checkDocument(s *plan.Step, ref uint64) error {
	if o.Config == nil {
		return nil
	}
	source, sequence := plan.RefSource(ref), plan.RefSequence(ref)
	if source >= len(o.sources) {
		return fmt.Errorf("the run has %d sources", len(o.sources))
	}
	info, end := &o.sources[source], o.sourceEnds[source]
	first, last := info.First(), uint64(plan.MaxSequence)
	if !info.IsShuffled() { // the source has at most as many arrivals as all sources together
		last = info.Start + s.Cursor.Last() - 1
	}
	if source == 0 {
		first = max(first, info.Start+min(o.lowWatermark.Last(), o.singleSourceUntil))
	}
	if end.sealed {
		last = min(last, end.last)
	}
	if sequence < first || sequence > last {
		return fmt.Errorf("the step was made behind arrival %s, and can hold documents %d to %d", s.Cursor, first, last)
	}
	return nil
}

// FirstSourcePosition returns the minimum position in the first source after an arrival. alone reports that the
// position is exact, and that no other source is read up to it.
func (o *Validator) FirstSourcePosition(at plan.Position) (place mixture.SourcePosition, alone bool) {
	return mixture.SourcePosition{Taken: min(at.Last(), o.singleSourceUntil)}, at.Last() <= o.singleSourceUntil
}

// CheckEntry checks a record between steps.
func (o *Validator) CheckEntry(e Entry) error {
	if f, ok := e.(Foreign); ok {
		return &ForeignError{f.Position}
	}
	if x, part := e.(ForkState); part && o.FullHistory {
		return o.checkForkState(x)
	}
	if o.nextForkState < o.forkStateParts {
		return fmt.Errorf("found a record of kind %d where part %d of the inherited state was expected", e.Kind(),
			o.nextForkState)
	}
	if _, request := e.(Seal); request {
		return errors.New("it is a request, and no record of a plan")
	}
	if _, term := e.(Term); !term && o.FullHistory && !o.HasTerm {
		return fmt.Errorf("a record of kind %d precedes the first term", e.Kind())
	}
	switch e := e.(type) {
	case Header:
		return fmt.Errorf("a header follows %d steps", o.Steps)
	case Term:
		o.HasTerm = true
	case Commit:
		if e.Step > o.Steps {
			return fmt.Errorf("job %q commits all steps before %d, but %d steps precede that record", e.Job,
				e.Step, o.Steps)
		}
	case Resize, Leave:
		return o.checkWorldSize(e)
	case End:
		switch {
		case o.Ended || e.Steps != o.Steps:
			return fmt.Errorf("it ends the run with %d steps, but %d steps precede it", e.Steps, o.Steps)
		case o.FullHistory && !o.canEnd():
			return fmt.Errorf("it ends the run with %d steps, but the end of a source is not known", e.Steps)
		}
		o.Ended = true
	case Control:
		return o.checkControl(e)
	}
	return nil
}

func (o *Validator) checkForkState(x ForkState) error {
	if o.nextForkState == o.forkStateParts || x.Part != o.nextForkState {
		return fmt.Errorf("%s is out of place", x)
	}
	o.nextForkState++
	return nil
}

// checkWorldSize applies a change of a world size, or the leave of its job.
func (o *Validator) checkWorldSize(e Entry) error {
	if c, resize := e.(Resize); resize {
		if c.Step > o.Steps {
			return fmt.Errorf("job %q changes its world size at step %d, but %d steps precede that record", c.Job, c.Step,
				o.Steps)
		}
		if _, known := o.worldSizes[c.Job]; !known && len(o.worldSizes) == MaxResizedJobs {
			return fmt.Errorf("job %q changes its world size, as %d other jobs have done", c.Job, MaxResizedJobs)
		}
	}
	o.worldSizes = o.worldSizes.WithEntry(e)
	return nil
}

// canEnd reports whether enough sources are sealed for the run to have ended.
func (o *Validator) canEnd() bool {
	if o.Config.Mix.End == mixture.EndFirst && slices.ContainsFunc(o.sourceEnds, func(e sourceEnd) bool {
		return e.sealed && !e.removed
	}) {
		return true
	}
	return !slices.ContainsFunc(o.sourceEnds, func(e sourceEnd) bool { return !e.sealed && !e.removed })
}

func (o *Validator) checkControl(c Control) error {
	switch {
	case o.Ended:
		return fmt.Errorf("a record of kind %d follows behind the end of the run", c.Kind())
	case !plan.PositionAfter(c.EffectiveAfter()).Reaches(o.cursor):
		return fmt.Errorf("a %s follows a step that was planned after arrival %s", c, o.cursor)
	}
	if c, ok := c.(SealSource); ok && o.FullHistory {
		switch {
		case c.Source >= len(o.sourceEnds):
			return fmt.Errorf("a %s: the run has no source %d", c, c.Source)
		case o.sourceEnds[c.Source].sealed:
			return fmt.Errorf("a %s follows behind the end of that source", c)
		}
	}
	if c, ok := c.(Filter); ok {
		if err := o.checkFilter(c); err != nil {
			return err
		}
	}
	if c, ok := c.(Schedule); ok && o.Config != nil {
		if err := o.schedule.Apply(*o.Config, c.Phases); err != nil {
			return fmt.Errorf("a %s: %w", c, err)
		}
	}
	o.recordControl(c)
	return nil
}

func (o *Validator) recordControl(c Control) {
	o.sourceEnds = slices.Clone(o.sourceEnds) // a copy of the validator may share the slice
	switch c := c.(type) {
	case SealSource:
		if c.Source < len(o.sourceEnds) {
			o.sourceEnds[c.Source].sealed, o.sourceEnds[c.Source].last = true, c.Last
		}
	case Mix:
		for i, s := range o.sources {
			o.sourceEnds[i].removed = o.sourceEnds[i].removed || slices.Contains(c.Remove, s.Name)
		}
		o.sources = append(slices.Clip(o.sources), c.Infos()...)
		for _, b := range c.SourceBegins {
			o.sourceEnds = append(o.sourceEnds, sourceEnd{sealed: b.Sealed, last: b.Last})
		}
		if len(c.SourceBegins) > 0 {
			o.singleSourceUntil = min(o.singleSourceUntil, c.Arrival)
		}
	}
}

// Reader processes the records of a plan in order. It joins the parts of steps, and rejects records that are
// impossible at their position.
type Reader struct {
	Validator
	joiner StepJoiner
}

// Read processes the next record after the header. It returns a step with the step's last part.
func (s *Reader) Read(e Entry) (*plan.Step, error) {
	if _, part := e.(StepPart); !part {
		if s.joiner.Step != nil {
			return nil, fmt.Errorf("step %d is cut short before it", s.joiner.Step.Index)
		}
		return nil, s.CheckEntry(e)
	}
	step, err := s.joiner.Add(e)
	if err == nil && step != nil {
		err = s.CheckStep(step)
	}
	return step, err
}

// CheckComplete returns an error that names the step that is incomplete at the end of the records, or nil if there is
// none.
func (s *Reader) CheckComplete() error {
	if s.joiner.Step == nil {
		return nil
	}
	return fmt.Errorf("step %d is cut short at the end of the log", s.joiner.Step.Index)
}

// IsComplete reports whether no step is incomplete after the last record.
func (s *Reader) IsComplete() bool { return s.joiner.Step == nil }

// StepJoiner joins the parts of a step.
type StepJoiner struct {
	Step     *plan.Step // the incomplete step; nil between steps
	nextPart int
}

// Add processes the next record of a step and returns the step once it is complete.
func (j *StepJoiner) Add(e Entry) (*plan.Step, error) {
	p, ok := e.(StepPart)
	if !ok {
		return nil, fmt.Errorf("kind %d where part %d of a step should be", e.Kind(), j.nextPart)
	}
	if p.Part != j.nextPart || (j.Step == nil) != (p.Part == 0) ||
		(j.Step != nil && (j.Step.Index != p.Index || len(j.Step.Rows) != p.FirstRow)) {
		return nil, fmt.Errorf("found part %d of step %d where part %d was expected", p.Part, p.Index, j.nextPart)
	}
	if j.Step == nil {
		j.Step = &plan.Step{Index: p.Index, Bucket: p.Bucket, Cursor: p.Cursor, LowWatermark: p.LowWatermark,
			SourcePositions: p.SourcePositions,
			Masked:          p.Masked, MaskedSegmentStarts: p.MaskedSegmentStarts,
			SourceLossTokens: p.SourceLossTokens,
			Rows:             make([][]packonline.Piece, 0, p.TotalRows)}
	}
	if p.Masked != j.Step.Masked || p.MaskedSegmentStarts != j.Step.MaskedSegmentStarts {
		return nil, fmt.Errorf("part %d of step %d counts %d tokens without a loss, the one before it %d", p.Part, p.Index,
			p.Masked, j.Step.Masked)
	}
	if (p.SourceLossTokens != nil) != (j.Step.SourceLossTokens != nil) {
		return nil, fmt.Errorf("part %d of step %d is a record of kind %d, the one before it is of another kind", p.Part,
			p.Index, p.Kind())
	}
	j.Step.Repeats = append(j.Step.Repeats, p.Repeats...)
	j.Step.Rows = append(j.Step.Rows, p.Rows...)
	j.nextPart++
	if j.nextPart < p.Parts {
		return nil, nil
	}
	s := j.Step
	if len(s.Rows) != p.TotalRows {
		return nil, fmt.Errorf("step %d has %d rows of %d", s.Index, len(s.Rows), p.TotalRows)
	}
	all := int64(0)
	for _, row := range s.Rows {
		all += plan.RowTokens(row)
	}
	if s.Masked > all {
		return nil, fmt.Errorf("step %d has %d tokens, %d of them without a loss", s.Index, all, s.Masked)
	}
	if loss := sum(s.SourceLossTokens); s.SourceLossTokens != nil && loss != all-s.Masked {
		return nil, fmt.Errorf("step %d has %d tokens with a loss, and %d of all sources", s.Index, all-s.Masked, loss)
	}
	*j = StepJoiner{}
	return s, nil
}

func sum(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}
