package runconfig_test

import (
	"slices"
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/runconfig"
)

func scheduled(rows int, phases ...runconfig.Phase) runconfig.Config {
	c := plantest.Config("bfd")
	c.Steps.Rows, c.Steps.Schedule = rows, phases
	return c
}

// The ramp of Megatron-LM's --rampup-batch-size START INCREMENT SAMPLES, where a sample is a full row.
func TestSchedule_RampsAsMegatron(t *testing.T) {
	const start, increment, samples, end, length = 32, 16, 5000, 256, 16
	s := runconfig.NewSchedule(scheduled(start, runconfig.Phase{RampTokens: samples * length, Rows: end,
		Increment: increment}))
	consumed := 0
	for range 200 {
		want := end
		if perIncrement := float64(samples) / ((end - start) / increment); consumed <= samples {
			want = min(start+int(float64(consumed)/perIncrement)*increment, end)
		}
		if got := s.Rows()[0]; got != want {
			t.Fatalf("after %d samples: %d rows, Megatron has %d", consumed, got, want)
		}
		consumed += want
		s.Advance(int64(want * length))
	}
	if s.Rows()[0] != end {
		t.Errorf("the ramp ends at %d rows", s.Rows()[0])
	}
}

func TestSchedule_RejectsImpossiblePhases(t *testing.T) {
	for want, phases := range map[string][]runconfig.Phase{
		"schedule[1].from_step: 5: want 8 or more": {{FromStep: 5, RampSteps: 3, Rows: 8}, {FromStep: 5, Rows: 16}},
		"schedule[0].from_step: 0: want from_step and ramp_steps": {{FromTokens: 5, Rows: 8}, {FromStep: 5,
			Rows: 16}},
		"schedule[0].rows: 0: want the rows":            {{FromStep: 5}},
		"schedule[0].rows: 3: want the rows":            {{FromStep: 5, Rows: 3, Tokens: 64}},
		"schedule[0].rows: [3]: want rows":              {{FromStep: 5, Rows: 3}},
		"schedule[0].rows: -1: want 1 to 2^20":          {{FromStep: 5, Rows: -1}},
		"schedule[0].tokens: 8: want 1 to 2^20":         {{FromStep: 5, Tokens: 8}},
		"schedule[0].table: [1 2]: want the rows":       {{FromStep: 5, Table: []int{1, 2}}},
		"schedule[0].increment: 3: want a divisor":      {{FromStep: 5, RampSteps: 5, Rows: 8, Increment: 3}},
		"schedule[0].increment: 3: want 0":              {{FromStep: 5, Rows: 8, Increment: 3}},
		"schedule[0].rows: [4]: want other rows":        {{FromStep: 5, RampSteps: 5, Rows: 4}},
		"schedule[0].ramp_steps: -1: want 0":            {{FromStep: 5, RampSteps: -1, Rows: 8}},
		"schedule[1].from_tokens: 10: want 11 or more:": {{FromTokens: 10, Rows: 8}, {FromTokens: 10, Rows: 16}},
	} {
		bad := scheduled(4, phases...).Validate()
		if len(bad) == 0 || !strings.HasPrefix(bad[0].Error(), "steps."+want) {
			t.Errorf("%+v: got %v, want %s", phases, bad, want)
		}
	}
}

func TestSchedule_ChangeReplacesLaterPhases(t *testing.T) {
	c := scheduled(4, runconfig.Phase{FromStep: 2, RampSteps: 4, Rows: 12}, runconfig.Phase{FromStep: 10, Rows: 16})
	s := runconfig.NewSchedule(c)
	var rows []int
	advance := func(steps int) {
		for range steps {
			rows = append(rows, s.Rows()[0])
			s.Advance(10)
		}
	}
	advance(5) // in the ramp
	for _, phase := range []runconfig.Phase{{FromStep: 5, Rows: 8}, {FromStep: 4, Rows: 8}} {
		if err := s.Apply(c, []runconfig.Phase{phase}); err == nil {
			t.Errorf("step 5 is next, and a phase from step %d was accepted", phase.FromStep)
		}
	}
	if err := s.Apply(c, []runconfig.Phase{{RampSteps: 2, Rows: 16, Increment: 4}, {FromStep: 9, Rows: 4}}); err != nil {
		t.Fatal(err)
	}
	restored, err := c.RestoreSchedule([]byte(s.Encode()))
	if err != nil || !slices.Equal(restored.Rows(), s.Rows()) {
		t.Errorf("restored %v of %v: %v", restored.Rows(), s.Rows(), err)
	}
	advance(5)
	if want := []int{4, 4, 4, 4, 8, 8, 12, 16, 16, 4}; !slices.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
	f := s.Fork(c, c, 2, 20)
	if f.Steps != 8 || f.Tokens != 80 || f.Inherited != 8 || f.Rows()[0] != 16 {
		t.Errorf("the fork before step 8 is at %+v with %v rows", f, f.Rows())
	}
}

// A schedule whose phase has begun before its beginning, as only damaged data has, does not panic.
func TestSchedule_ReadsImpossibleProgress(t *testing.T) {
	var s runconfig.Schedule
	err := s.UnmarshalJSON([]byte(`{"steps":1,"tokens":10,"phases":[{"step_rows":[4],"first_step":0},
		{"from_step":9,"ramp_steps":1,"step_rows":[8],"start_rows":[4],"increments":4,"first_step":1}]}`))
	if err != nil || !slices.Equal(s.Rows(), []int{4}) {
		t.Errorf("%v rows, %v", s.Rows(), err)
	}
}

// The next change is at the first step whose rows differ, and names them.
func TestSchedule_NextChange(t *testing.T) {
	for name, tt := range map[string]struct {
		phases []runconfig.Phase
		tokens int64 // of each step
	}{
		"steps": {[]runconfig.Phase{{FromStep: 3, RampSteps: 7, Rows: 16}, {FromStep: 12, Rows: 8},
			{FromStep: 15, RampSteps: 2, Rows: 20}}, 100},
		"tokens": {[]runconfig.Phase{{FromTokens: 1000, RampTokens: 3001, Rows: 16}, {FromTokens: 4100, Rows: 8}}, 1},
		"large":  {[]runconfig.Phase{{FromTokens: 1 << 59, RampTokens: 1 << 59, Rows: 4000, Increment: 1}}, 1 << 51},
	} {
		s := runconfig.NewSchedule(scheduled(4, tt.phases...))
		for !s.IsLast() {
			c, ok := s.NextChange()
			phase, rows := s.Current(), slices.Clone(s.Rows())
			if !ok || c.Phase < phase || (c.Steps > 0) == (c.Tokens > 0) {
				t.Fatalf("%s: in phase %d the next change is %+v, %v", name, phase, c, ok)
			}
			for left := max(c.Steps, c.Tokens); left > 0; {
				if s.Current() != phase || !slices.Equal(s.Rows(), rows) {
					t.Fatalf("%s: phase %d with %v rows changes %d before %+v", name, phase, rows, left, c)
				}
				if s.Advance(tt.tokens); c.Steps > 0 {
					left--
				} else {
					left -= tt.tokens
				}
			}
			if tt.tokens > 1 && c.Steps == 0 { // a step may reach several changes
				if s.Rows()[0] < c.Rows[0] {
					t.Fatalf("%s: %v rows after %+v", name, s.Rows(), c)
				}
				continue
			}
			if s.Current() != c.Phase || !slices.Equal(s.Rows(), c.Rows) {
				t.Fatalf("%s: phase %d with %v rows after %+v", name, s.Current(), s.Rows(), c)
			}
		}
		if c, ok := s.NextChange(); ok {
			t.Errorf("%s: a change after the last: %+v", name, c)
		}
	}
}

func TestSchedule_RejectsImpossibleBuckets(t *testing.T) {
	for want, c := range map[string]runconfig.Config{
		"buckets: [1]: want a row length": scheduled(4, runconfig.Phase{FromStep: 5, Rows: 8, Buckets: []int{1}}),
		"buckets: [8 16]: want exactly one row length": scheduled(4, runconfig.Phase{FromStep: 5, Rows: 8,
			Buckets: []int{8, 16}}),
		"buckets: [32]: want a phase without a ramp": scheduled(4, runconfig.Phase{FromStep: 5, RampSteps: 2, Rows: 8,
			Buckets: []int{32}}),
		"rows: 0: want the rows of a step": scheduled(4, runconfig.Phase{FromStep: 5, Buckets: []int{32}}),
		"table: [1 2]: want the rows of a step for each of the 1": scheduled(4, runconfig.Phase{FromStep: 5,
			Table: []int{1, 2}, Buckets: []int{32}}),
		"rows: [3]: want rows": scheduled(4, runconfig.Phase{FromStep: 5, Rows: 3, Buckets: []int{32}}),
		"buckets: [32]: want none with the method splice": func() runconfig.Config {
			c := scheduled(4, runconfig.Phase{FromStep: 5, Rows: 8, Buckets: []int{32}})
			c.Packing.Method = "splice"
			return c
		}(),
		"buckets: [6]: want row lengths for which packing.extra can be 8": func() runconfig.Config {
			c := scheduled(4, runconfig.Phase{FromStep: 5, Rows: 8, Buckets: []int{6}})
			c.Packing.Method, c.Packing.Extra = "bfd-m", 8
			return c
		}(),
	} {
		bad := c.Validate()
		if len(bad) == 0 || !strings.Contains(bad[0].Error(), "steps.schedule[0]."+want) &&
			!strings.HasPrefix(bad[0].Error(), "steps.schedule[0].buckets[0]: 1: want a row length") {
			t.Errorf("%+v: got %v, want %s", c.Steps.Schedule, bad, want)
		}
	}
}

// Phases inherit the row lengths of the phase before them, and a ramp has those of its phase.
func TestSchedule_BucketsLast(t *testing.T) {
	c := scheduled(64, runconfig.Phase{FromStep: 1, Tokens: 1024, Buckets: []int{128}},
		runconfig.Phase{FromStep: 2, RampSteps: 2, Tokens: 2048, Increment: 512},
		runconfig.Phase{FromStep: 5, Rows: 4, Buckets: []int{16}})
	if bad := c.Validate(); len(bad) > 0 {
		t.Fatal(bad)
	}
	s := runconfig.NewSchedule(c)
	var got [][2]int
	for range 6 {
		restored, err := c.RestoreSchedule([]byte(s.Encode()))
		if err != nil || !slices.Equal(restored.Buckets(c), s.Buckets(c)) || !slices.Equal(restored.Rows(), s.Rows()) {
			t.Errorf("restored %v, %v", restored, err)
		}
		got = append(got, [2]int{s.Buckets(c)[0], s.Rows()[0]})
		s.Advance(10)
	}
	if want := [][2]int{{16, 64}, {128, 8}, {128, 8}, {128, 12}, {128, 16}, {16, 4}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if c.MaxStepTokens() != 2048 {
		t.Errorf("the largest step has %d tokens", c.MaxStepTokens())
	}
	for what, phases := range map[string]string{
		"a length of no method":  `{"rows":4,"buckets":[1],"step_rows":[4]}`,
		"no rows for a length":   `{"rows":4,"buckets":[8],"step_rows":[4,4]}`,
		"lengths that disappear": `{"rows":4,"buckets":[8],"step_rows":[4]},{"from_step":9,"rows":2,"step_rows":[2]}`,
	} {
		damaged := `{"steps":0,"tokens":0,"phases":[{"step_rows":[64],"first_step":0},` + phases + `]}`
		damaged = strings.Replace(damaged, `{"rows":4`, `{"from_step":5,"rows":4`, 1)
		if _, err := c.RestoreSchedule([]byte(damaged)); err == nil {
			t.Errorf("a schedule with %s is restored", what)
		}
	}
}
