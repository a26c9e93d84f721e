package runconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// Phase is a part of a run with its own size of steps. It begins after a number of tokens or steps, and lasts until
// the next phase begins. All phases of a schedule count the same.
type Phase struct {
	// FromTokens begins the phase with the first step before which all steps have at least this many tokens of documents.
	FromTokens mixture.Tokens `koanf:"from_tokens" json:"from_tokens,omitempty"`
	// FromStep begins the phase with this step.
	FromStep int64 `koanf:"from_step" json:"from_step,omitempty"`
	// RampTokens and RampSteps are the number of tokens or steps over which the rows change linearly to those of the
	// phase. 0 changes them immediately.
	RampTokens mixture.Tokens `koanf:"ramp_tokens" json:"ramp_tokens,omitempty"`
	RampSteps  int64          `koanf:"ramp_steps" json:"ramp_steps,omitempty"`
	// Rows, Tokens and Table are as in Steps; exactly one is set.
	Rows   int            `koanf:"rows" json:"rows,omitempty"`
	Tokens mixture.Tokens `koanf:"tokens" json:"tokens,omitempty"`
	Table  []int          `koanf:"table" json:"table,omitempty"`
	// Buckets are the row lengths of the phase and of those after it (unit: tokens), valid for packing.method. Buffered
	// documents are packed again into rows of these lengths. If it is empty, the row lengths stay as they are.
	Buckets []int `koanf:"buckets" json:"buckets,omitempty"`
	// Increment is by how much a ramp changes a step at once (unit: rows, or tokens of a step if Tokens is set). 0 selects
	// the greatest common divisor of the rows before and after: a world size that divides both divides all rows of the
	// ramp.
	Increment int64 `koanf:"increment" json:"increment,omitempty"`
}

// maxPhases is the maximum number of phases of a run, including those added by controls.
const maxPhases = 1024

// countsSteps reports whether the phase counts steps, and countsTokens whether it counts tokens. A phase that begins
// immediately and has no ramp counts neither.
func (p Phase) countsSteps() bool  { return p.FromStep != 0 || p.RampSteps != 0 }
func (p Phase) countsTokens() bool { return p.FromTokens != 0 || p.RampTokens != 0 }

// from returns where the phase begins, and ramp the length of its ramp, in tokens or steps.
func (p Phase) from() int64 { return p.FromStep + int64(p.FromTokens) }
func (p Phase) ramp() int64 { return p.RampSteps + int64(p.RampTokens) }

// ScheduledPhase is a phase with the rows per step that follow from it. Its Buckets are set from the first phase on
// that changes them; before that phase, those of the configuration apply.
type ScheduledPhase struct {
	Phase
	// StepRows are the rows of a step per bucket after the ramp.
	StepRows []int `json:"step_rows"`
	// StartRows are the rows before the ramp, and Increments the number of equal changes in it. They are unset without a
	// ramp.
	StartRows  []int `json:"start_rows,omitempty"`
	Increments int64 `json:"increments,omitempty"`
	// FirstStep is the phase's first step, once it has begun. It counts the steps of the runs from which the run was
	// forked.
	FirstStep *uint64 `json:"first_step,omitempty"`
}

// rowsAt returns the rows of a step of a bucket after a number of the ramp's changes.
func (p *ScheduledPhase) rowsAt(bucket int, changes int64) int {
	if changes >= p.Increments {
		return p.StepRows[bucket]
	}
	start := int64(p.StartRows[bucket])
	return int(start + (int64(p.StepRows[bucket])-start)/p.Increments*changes)
}

// AddPhases appends phases to those of a schedule, and returns every invalid field with its path in steps. now are the
// current rows per bucket: the ramp of the first phase starts there.
func (c Config) AddPhases(phases []ScheduledPhase, now []int, more []Phase) ([]ScheduledPhase, []FieldError) {
	var bad []FieldError
	for i, p := range more {
		check := phaseCheck{index: i, steps: slices.ContainsFunc(more, Phase.countsSteps)}
		before := &phases[len(phases)-1]
		check.order(before.Phase, p, i > 0)
		if len(p.Buckets) > 0 {
			check.buckets(c, p)
		} else {
			p.Buckets = before.Buckets
		}
		rows := check.size(p, c.buckets(p))
		next := ScheduledPhase{Phase: p, StepRows: rows}
		if len(check.bad) == 0 && p.ramp() > 0 {
			next.StartRows, next.Increments = now, check.increments(p, c.buckets(p), now, rows)
		}
		if bad = append(bad, check.bad...); rows == nil {
			return nil, bad // the next phase follows this one
		}
		phases, now = append(slices.Clip(phases), next), rows
	}
	if len(phases) > maxPhases {
		bad = append(bad, FieldError{Field: "schedule", Value: len(phases),
			Want: fmt.Sprintf("at most %d phases, including those of controls", maxPhases)})
	}
	return phases, append(bad, checkDivisors(phases, len(more))...)
}

// phaseCheck collects the invalid fields of a phase.
type phaseCheck struct {
	index int
	steps bool // the schedule counts steps
	bad   []FieldError
}

func (k *phaseCheck) add(field string, value any, want string) {
	k.bad = append(k.bad, FieldError{Field: fmt.Sprintf("schedule[%d].%s", k.index, field), Value: value, Want: want})
}

// order checks where a phase begins. follows reports whether previous is a phase of the same schedule.
func (k *phaseCheck) order(previous, p Phase, follows bool) {
	field, ramp := "from_tokens", "ramp_tokens"
	if k.steps {
		field, ramp = "from_step", "ramp_steps"
		if p.countsTokens() {
			k.add(field, p.FromStep, "from_step and ramp_steps, or from_tokens and ramp_tokens, for all phases")
		}
	}
	switch from := p.from(); {
	case p.FromStep < 0 || p.FromTokens < 0 || from > 1<<60:
		k.add(field, from, "0 to 2^60")
	case p.ramp() < 0 || p.ramp() > 1<<60:
		k.add(ramp, p.ramp(), "0 (immediately) to 2^60")
	case follows && from < previous.from()+max(previous.ramp(), 1):
		k.add(field, from, fmt.Sprintf("%d or more: the phase before it and its ramp end there",
			previous.from()+max(previous.ramp(), 1)))
	}
}

// buckets checks the row lengths of a phase that changes them.
func (k *phaseCheck) buckets(c Config, p Phase) {
	if keepsHints(c.Packing) {
		k.add("buckets", p.Buckets, "none with the method splice: fork the run")
		return
	}
	if p.ramp() > 0 {
		k.add("buckets", p.Buckets, "a phase without a ramp: a later phase can have one")
	}
	packing, valid := c.Packing, len(c.Packing.Validate()) == 0
	packing.Buckets = p.Buckets
	for _, e := range packing.Validate() {
		if e.Field != "buckets" && !strings.HasPrefix(e.Field, "buckets[") {
			if !valid { // the field may be invalid for all row lengths
				continue
			}
			e.Field, e.Want = "buckets", fmt.Sprintf("row lengths for which packing.%s can be %v: %s", e.Field, e.Value, e.Want)
			e.Value = p.Buckets
		}
		k.add(e.Field, e.Value, e.Want)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) { // none in Apply: CheckSource checks those of the run
		if own := c.Sources[name].Packing; own != nil {
			if want := wantBuckets(p.Buckets, name, *own); want != "" {
				k.add("buckets", p.Buckets, want)
			}
		}
	}
}

// wantBuckets describes the valid row lengths of a phase if a source with its own packing cannot have those given, else
// it returns the empty string.
func wantBuckets(lengths []int, source string, own packonline.Config) string {
	switch {
	case keepsHints(own):
		return fmt.Sprintf("none with splice, the method of source %s: fork the run", source)
	case !containsAll(lengths, own.Buckets):
		return fmt.Sprintf("row lengths with the %v of source %s, which has its own packing", own.Buckets, source)
	}
	return ""
}

// keepsHints reports whether a method needs packing hints, which rows that are not in steps yet no longer have.
func keepsHints(c packonline.Config) bool {
	return slices.Contains(packonline.Parameters(c.Method), "splice")
}

func containsAll(all, some []int) bool {
	return !slices.ContainsFunc(some, func(n int) bool { return !slices.Contains(all, n) })
}

// buckets returns the row lengths of a phase of a schedule.
func (c Config) buckets(p Phase) []int {
	if len(p.Buckets) > 0 {
		return p.Buckets
	}
	return c.Packing.Buckets
}

// size returns the rows per bucket of a phase, or nil if they are invalid.
func (k *phaseCheck) size(p Phase, buckets []int) []int {
	sizes := 0
	for _, set := range []bool{p.Rows != 0, p.Tokens != 0, len(p.Table) > 0} {
		if set {
			sizes++
		}
	}
	if sizes != 1 {
		k.add("rows", p.Rows, "the rows of a step from 1 on, or else tokens or table: exactly one of the three")
		return nil
	}
	s := Steps{Rows: p.Rows, Tokens: int64(p.Tokens), Table: p.Table}
	if p.Rows == 0 {
		s.Rows = 1 // unused
	}
	for _, e := range s.validateSize(buckets) {
		k.add(e.Field, e.Value, e.Want)
	}
	if p.Increment < 0 || p.Increment > 0 && p.ramp() == 0 {
		k.add("increment", p.Increment, "0, or more with ramp_tokens or ramp_steps")
	}
	if len(k.bad) > 0 {
		return nil
	}
	return s.RowsPerBucket(buckets)
}

// increments returns the number of equal changes of a ramp.
func (k *phaseCheck) increments(p Phase, buckets, from, to []int) int64 {
	n := int64(0)
	for i := range to {
		change := int64(max(to[i]-from[i], from[i]-to[i]))
		switch {
		case change == 0:
		case p.Increment == 0:
			n = GCD(n, change/GCD(int64(from[i]), int64(to[i])))
		default:
			if p.Tokens > 0 {
				change *= int64(buckets[i])
			}
			n = max(n, change/p.Increment)
			if n*p.Increment != change {
				k.add("increment", p.Increment, "a divisor of the change of a step, the same part for every bucket")
				return 0
			}
		}
	}
	if n == 0 {
		k.add("rows", to, fmt.Sprintf("other rows than the %v before the ramp, or no ramp", from))
	}
	return n
}

// Divisor returns the greatest common divisor of all rows of the phase's steps.
func (p *ScheduledPhase) Divisor() (d int) {
	for i, rows := range p.StepRows {
		d = GCD(d, rows)
		if p.Increments > 0 {
			d = GCD(d, max(rows-p.StartRows[i], p.StartRows[i]-rows)/int(p.Increments))
		}
	}
	return d
}

// checkDivisors rejects a new phase without a common divisor with the phases before it: no world size divides both.
func checkDivisors(phases []ScheduledPhase, added int) (bad []FieldError) {
	shared := 0
	for i := range phases {
		before := shared
		if shared = GCD(shared, phases[i].Divisor()); shared == 1 && before > 1 {
			bad = append(bad, FieldError{Field: fmt.Sprintf("schedule[%d].rows", i-len(phases)+added),
				Value: phases[i].StepRows, Want: fmt.Sprintf(
					"rows (and an increment) that share a divisor with the phases before, as %d does: now no world size "+
						"above 1 divides the rows of all phases", before)})
			return bad
		}
	}
	return nil
}

// GCD returns the greatest common divisor of two numbers of 0 or more.
func GCD[N int | int64](a, b N) N {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
