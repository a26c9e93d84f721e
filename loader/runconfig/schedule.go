package runconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"loaderd/loader/mixture"
)

// Schedule is the progress of a run through the phases of its steps. It is a pure function of the configuration, the
// controls, and the tokens of the steps so far. The planner, and each process that reads the plan, advance their own.
// A copy continues independently.
type Schedule struct {
	// Steps and Tokens are the number of steps so far, and of the tokens of documents in them. They include those of the
	// runs from which the run was forked, if these had a schedule; Inherited are the steps among them.
	Steps     uint64 `json:"steps"`
	Tokens    int64  `json:"tokens"`
	Inherited uint64 `json:"inherited,omitempty"`
	// Phases are all phases in order; the first one is the size that Steps configures.
	Phases []ScheduledPhase `json:"phases"`

	current int   // index of the phase of the next step
	changes int64 // of its ramp
	rows    []int // of the next step, per bucket
}

// schedulePhases returns the phases of a configuration, and their invalid fields.
func (c Config) schedulePhases() ([]ScheduledPhase, []FieldError) {
	s := c.Steps
	rows, first := s.RowsPerBucket(c.Packing.Buckets), uint64(0)
	initial := ScheduledPhase{StepRows: rows, FirstStep: &first}
	return c.AddPhases([]ScheduledPhase{initial}, rows, s.Schedule)
}

// ValidateSchedule returns the invalid fields of the schedule of valid steps, with their paths in steps.
func (c Config) ValidateSchedule() []FieldError {
	_, bad := c.schedulePhases()
	return bad
}

// CheckSchedule returns an error for a configuration that has no schedule, as only damaged data has.
func (c Config) CheckSchedule() error {
	bad := c.Steps.validateSize(c.Packing.Buckets)
	if len(bad) == 0 {
		var phases []ScheduledPhase
		if phases, bad = c.schedulePhases(); phases != nil {
			return nil
		}
	}
	return FieldError{Field: "steps." + bad[0].Field, Value: bad[0].Value, Want: bad[0].Want}
}

// NewSchedule returns the schedule of a configuration that CheckSchedule accepts, at the start of a run.
func NewSchedule(c Config) Schedule {
	phases, _ := c.schedulePhases()
	s := Schedule{Phases: phases}
	s.update()
	return s
}

// Rows returns the rows of the next step per bucket. The caller must not change them.
func (s *Schedule) Rows() []int { return s.rows }

// Buckets returns the row lengths of the next step. The caller must not change them.
func (s *Schedule) Buckets(c Config) []int { return c.buckets(s.Phases[s.current].Phase) }

// HasBuckets reports whether a phase has exactly these row lengths.
func (s *Schedule) HasBuckets(c Config, lengths []int) bool {
	return slices.ContainsFunc(s.Phases, func(p ScheduledPhase) bool { return slices.Equal(c.buckets(p.Phase), lengths) })
}

// ChangesBuckets reports whether a phase changes the row lengths.
func (s *Schedule) ChangesBuckets() bool { return len(s.Phases[len(s.Phases)-1].Buckets) > 0 }

// Scale returns the mean size of the next step, relative to that of the first phase.
func (s *Schedule) Scale(c Config) (scale float64) {
	for i, length := range s.Buckets(c) {
		scale += s.StepScale(c, length, s.rows[i]) / float64(len(s.rows))
	}
	return scale
}

// StepScale returns the size of a step relative to that of the first phase: by its rows or, if the row lengths change,
// by its tokens.
func (s *Schedule) StepScale(c Config, length, rows int) float64 {
	first, lengths := s.Phases[0].StepRows, c.Packing.Buckets
	if !s.ChangesBuckets() {
		return float64(rows) / float64(first[slices.Index(lengths, length)])
	}
	tokens := 0
	for i := range first {
		tokens += first[i] * lengths[i]
	}
	return float64(rows*length) * float64(len(first)) / float64(tokens)
}

// IsLast reports whether the size of steps no longer changes.
func (s *Schedule) IsLast() bool {
	return s.current == len(s.Phases)-1 && s.changes == s.Phases[s.current].Increments
}

// IsConstant reports whether all steps have the same size.
func (s *Schedule) IsConstant() bool { return len(s.Phases) == 1 }

// Advance counts a step with that many tokens of documents, and reports whether the next one has other rows.
func (s *Schedule) Advance(tokens int64) (changed bool) {
	s.Steps++
	s.Tokens += tokens
	if s.IsLast() {
		return false
	}
	return s.update()
}

// update finds the phase and the rows of the next step. It reports whether the rows have changed.
func (s *Schedule) update() (changed bool) {
	for s.current+1 < len(s.Phases) && s.reached(&s.Phases[s.current+1]) {
		s.current++
		s.changes = 0
		if s.Phases[s.current].FirstStep == nil {
			first := s.Steps
			s.Phases = slices.Clone(s.Phases)
			s.Phases[s.current].FirstStep = &first
		}
		changed = true
	}
	p := &s.Phases[s.current]
	if n := s.changesOf(p); n != s.changes || changed || s.rows == nil {
		s.changes, changed = n, true
		s.rows = make([]int, len(p.StepRows))
		for i := range s.rows {
			s.rows[i] = p.rowsAt(i, n)
		}
	}
	return changed
}

// progress returns the progress in the unit of a phase.
func (s *Schedule) progress(p *ScheduledPhase) int64 {
	if p.countsSteps() {
		return int64(s.Steps)
	}
	return s.Tokens
}

// reached reports whether a phase has begun.
func (s *Schedule) reached(p *ScheduledPhase) bool {
	return p.FirstStep != nil || s.progress(p) >= p.from()
}

// changesOf returns the number of changes that the ramp of a phase has reached.
func (s *Schedule) changesOf(p *ScheduledPhase) int64 {
	return p.changesAfter(max(s.progress(p)-p.from(), 0)) // below 0 only in a damaged schedule
}

// changesAfter returns the number of changes of the phase's ramp after that many of its tokens or steps.
func (p *ScheduledPhase) changesAfter(done int64) int64 {
	if done >= p.ramp() {
		return p.Increments
	}
	hi, lo := bits.Mul64(uint64(done), uint64(p.Increments))
	n, _ := bits.Div64(hi, lo, uint64(p.ramp()))
	return int64(n)
}

// CanHave reports whether a step with rows of a length can have that many rows in any phase.
func (s *Schedule) CanHave(c Config, length, rows int) bool {
	return slices.ContainsFunc(s.Phases, func(p ScheduledPhase) bool {
		bucket := slices.Index(c.buckets(p.Phase), length)
		if bucket < 0 {
			return false
		}
		low, high := p.StepRows[bucket], p.StepRows[bucket]
		if p.Increments > 0 {
			low, high = min(low, p.StartRows[bucket]), max(high, p.StartRows[bucket])
		}
		return rows >= low && rows <= high
	})
}

// CheckSource rejects a source whose own packing has row lengths that the current phase or a later one does not have.
func (s *Schedule) CheckSource(c Config, name string, source mixture.Source) error {
	if source.Packing == nil || !s.ChangesBuckets() {
		return nil
	}
	for i := s.current; i < len(s.Phases); i++ {
		lengths := s.Phases[i].Buckets
		if len(lengths) == 0 { // those of the configuration, which the source has
			continue
		}
		if want := wantBuckets(lengths, name, *source.Packing); want != "" {
			return fmt.Errorf("%s: %w", s.PhaseName(i), FieldError{Field: "buckets", Value: lengths, Want: want})
		}
	}
	return nil
}

// Apply replaces the phases that have not begun by others. The first of them begins with the next step if it names no
// beginning; a ramp in progress then ends. It returns an error for phases that are invalid now, and changes nothing.
// CheckSource checks the row lengths of each source of the run, which may differ from those of the configuration.
func (s *Schedule) Apply(c Config, phases []Phase) error {
	c.Sources = nil
	if len(phases) == 0 {
		return errors.New("the change has no phase")
	}
	phases, now := slices.Clone(phases), &s.Phases[s.current]
	rows := now.StepRows
	switch first := &phases[0]; {
	case first.from() == 0:
		rows = s.rows
		if slices.ContainsFunc(phases, Phase.countsSteps) {
			first.FromStep = int64(s.Steps)
		} else {
			first.FromTokens = mixture.Tokens(s.Tokens)
		}
	case first.from() <= s.progress(&ScheduledPhase{Phase: *first}):
		return FieldError{Field: "steps.schedule[0]", Value: first.from(), Want: fmt.Sprintf(
			"a beginning after step %d and %d tokens, where the run is, or none to begin now", s.Steps, s.Tokens)}
	case s.changes < now.Increments && (now.countsSteps() != first.countsSteps() || first.from() < now.from()+now.ramp()):
		return FieldError{Field: "steps.schedule[0]", Value: first.from(), Want: fmt.Sprintf(
			"a beginning after the ramp in progress, or none to begin now: it ends at %d", now.from()+now.ramp())}
	}
	all, bad := c.AddPhases(s.Phases[:s.current+1], rows, phases)
	if len(bad) > 0 {
		bad[0].Field = "steps." + bad[0].Field
		return bad[0]
	}
	s.Phases = all
	s.update()
	return nil
}

// Fork returns the schedule of a fork, before the last steps with tokens were made. was is the configuration of the
// run, and c that of the fork. If both have the same steps, changes by controls stay in effect.
func (s Schedule) Fork(was, c Config, steps uint64, tokens int64) Schedule {
	f := Schedule{Steps: s.Steps - steps, Tokens: s.Tokens - tokens, Inherited: s.Steps - steps}
	a, _ := json.Marshal(was.scheduleShape())
	b, _ := json.Marshal(c.scheduleShape())
	if bytes.Equal(a, b) {
		f.Phases = slices.Clone(s.Phases)
	} else {
		f.Phases, _ = c.schedulePhases()
	}
	for i := range f.Phases {
		if first := f.Phases[i].FirstStep; i > 0 && first != nil && *first > f.Steps {
			f.Phases[i].FirstStep = nil
		}
	}
	f.update()
	return f
}

// scheduleShape returns what the schedule of a configuration depends on.
func (c Config) scheduleShape() any {
	s := c.Steps
	return []any{s.Rows, s.Tokens, s.Table, s.Schedule, c.Packing.Buckets}
}

// UnmarshalJSON reads a schedule with its current phase and rows. It returns an error for an impossible one.
func (s *Schedule) UnmarshalJSON(b []byte) error {
	type plain Schedule
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	if err := s.validate(); err != nil {
		return err
	}
	s.current, s.changes, s.rows = 0, 0, nil
	s.update()
	return nil
}

// Encode returns the schedule as JSON.
func (s *Schedule) Encode() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("runconfig: marshal schedule: %v", err)) // only numbers and lists of them
	}
	return string(b)
}

// RestoreSchedule reads what Encode of a schedule of this configuration wrote.
func (c Config) RestoreSchedule(b []byte) (s Schedule, err error) {
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("schedule of steps: %w", err)
	}
	if s.Encode() != string(b) || !c.FitsBuckets(s) {
		return s, errors.New("schedule of steps: it is not one that a daemon of this configuration writes")
	}
	return s, nil
}

// FitsBuckets reports whether the row lengths of a schedule are possible for the packing of the configuration. It does
// not check the packing of sources.
func (c Config) FitsBuckets(s Schedule) bool {
	c.Sources = nil
	changed := false // an earlier phase has other row lengths than the configuration
	for i, p := range s.Phases {
		var check phaseCheck
		if len(p.Buckets) > 0 {
			check.buckets(c, Phase{Buckets: p.Buckets})
		}
		if len(check.bad) > 0 || len(p.StepRows) != len(c.buckets(p.Phase)) || i == 0 && len(p.Buckets) > 0 ||
			changed && len(p.Buckets) == 0 {
			return false
		}
		changed = len(p.Buckets) > 0
	}
	return true
}

// validate rejects a schedule that no planner can have.
func (s *Schedule) validate() error {
	if len(s.Phases) == 0 || len(s.Phases) > maxPhases || s.Tokens < 0 || s.Steps < s.Inherited ||
		s.Phases[0].FirstStep == nil {
		return fmt.Errorf("%d phases after %d steps and %d tokens are impossible", len(s.Phases), s.Steps, s.Tokens)
	}
	for i, p := range s.Phases {
		buckets := len(p.Buckets)
		if buckets == 0 {
			buckets = len(s.Phases[0].StepRows)
		}
		valid := func(rows []int) bool {
			return len(rows) == buckets && !slices.ContainsFunc(rows, func(n int) bool { return n < 1 || n > maxStepRows })
		}
		if !valid(p.StepRows) || p.Increments < 0 || p.from() < 0 || p.ramp() < 0 ||
			(p.Increments > 0) != (p.ramp() > 0) || p.Increments > 0 && !valid(p.StartRows) {
			return fmt.Errorf("phase %d is impossible", i)
		}
	}
	return nil
}

// PhasesFrom returns the phases of a step of the run and of all later steps.
func (s *Schedule) PhasesFrom(step uint64) []ScheduledPhase {
	i := 0
	for i+1 < len(s.Phases) && s.Phases[i+1].FirstStep != nil && *s.Phases[i+1].FirstStep <= s.Inherited+step {
		i++
	}
	return s.Phases[i:]
}

// PhaseName names a phase in messages.
func (s *Schedule) PhaseName(i int) string {
	switch p := &s.Phases[i]; {
	case i == 0:
		return "the first phase (steps.rows, steps.tokens or steps.table)"
	case p.countsSteps():
		return fmt.Sprintf("phase %d of steps.schedule, from step %d", i, p.from())
	default:
		return fmt.Sprintf("phase %d of steps.schedule, from %d tokens", i, p.from())
	}
}
