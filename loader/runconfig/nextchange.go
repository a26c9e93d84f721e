package runconfig

import (
	"math/bits"
	"slices"
)

// ScheduleChange is a change of the size of steps that follows.
type ScheduleChange struct {
	// Phase is the index of the phase to which the steps belong then: the current one if its ramp continues.
	Phase int `json:"phase"`
	// Rows are the rows of a step per bucket then. The start of a ramp does not change them.
	Rows []int `json:"rows"`
	// Buckets are the row lengths then (unit: tokens), if the phase sets others.
	Buckets []int `json:"buckets,omitempty"`
	// Tokens and Steps are how much is planned before it. The one that the phase does not count is unset.
	Tokens int64 `json:"tokens,omitempty"`
	Steps  int64 `json:"steps,omitempty"`
}

// Current returns the index of the phase of the next step.
func (s *Schedule) Current() int { return s.current }

// NextChange returns the next change of the size of steps; ok is false if none follows. The change takes effect with
// the first step after its tokens or steps.
func (s *Schedule) NextChange() (c ScheduleChange, ok bool) {
	if s.IsLast() {
		return c, false
	}
	p, at, changes := &s.Phases[s.current], int64(0), int64(0)
	c.Phase = s.current
	if s.changes < p.Increments {
		done := p.progressOf(s.changes + 1)
		at, changes = p.from()+done, p.changesAfter(done)
	} else {
		c.Phase++
		if next := &s.Phases[c.Phase]; !slices.Equal(next.Buckets, p.Buckets) {
			c.Buckets = next.Buckets
		}
		p = &s.Phases[c.Phase]
		at = p.from()
	}
	for i := range p.StepRows {
		c.Rows = append(c.Rows, p.rowsAt(i, changes))
	}
	if left := max(at-s.progress(p), 0); p.countsSteps() {
		c.Steps = left
	} else {
		c.Tokens = left
	}
	return c, true
}

// progressOf returns the tokens or steps of a ramp after which it has reached a number of its changes.
func (p *ScheduledPhase) progressOf(changes int64) int64 {
	hi, lo := bits.Mul64(uint64(changes), uint64(p.ramp()))
	lo, carry := bits.Add64(lo, uint64(p.Increments)-1, 0)
	n, _ := bits.Div64(hi+carry, lo, uint64(p.Increments))
	return int64(n)
}
