package diagnosis

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"loaderd/loader/fault"
)

// pace feeds a RateSampler with the beats of a run whose ranks wait for steps, and records the kinds of the shown
// verdicts.
type pace struct {
	p      RateSampler
	s      VerdictDebouncer
	kinds  []string
	start  time.Time
	second int
	steps  uint64
}

// beat adds a second in which the given number of steps is planned.
func (x *pace) beat(steps int, waits bool) {
	now := x.start.Add(time.Duration(x.second) * time.Second)
	x.second++
	x.steps += uint64(steps)
	x.p.Add(Sample{at: now, steps: x.steps, hasWaitingTrainer: waits})
	shown, _ := x.s.Verdict()
	v := (&judgement{VerdictInput{RateSampler: &x.p, Shown: shown}, &wait{}}).runningVerdict()
	if waits && x.p.isStalled(now, shown.isStalled()) {
		v = Verdict{Health: Waiting, Reason: fault.SourceDry, Bottleneck: LimitDocuments}
	}
	x.s.Update(now, v)
	shown, _ = x.s.Verdict()
	if k := fmt.Sprint(shown.kind()); len(x.kinds) == 0 || x.kinds[len(x.kinds)-1] != k {
		x.kinds = append(x.kinds, k)
	}
}

// A run whose documents arrive at any steady pace settles in one verdict within three minutes.
func TestVerdictDebouncer_SteadyPaceSettlesInOneVerdict(t *testing.T) {
	for interval := 1; interval <= 120; interval++ {
		x := &pace{start: time.Unix(1e9, 0)}
		for x.second < 1500 {
			if x.second == 180 {
				x.kinds = nil
			}
			if x.second%interval == 0 {
				x.beat(1, false)
			} else {
				x.beat(0, true)
			}
		}
		if len(x.kinds) != 1 {
			t.Errorf("a step every %d s: %v", interval, x.kinds)
		}
	}
}

func TestVerdictDebouncer_FailureIsShownImmediately(t *testing.T) {
	var s VerdictDebouncer
	now := time.Unix(1e9, 0)
	s.Update(now, Verdict{Health: Running, Bottleneck: LimitRanks})
	s.Update(now, Verdict{Health: Failing, Reason: fault.SourceDown})
	if v, _ := s.Verdict(); v.Health != Failing {
		t.Errorf("%+v is shown", v)
	}
}

// For any sequence of verdicts, the kind that is shown changes when another kind has lasted for debounceTime, and not
// before.
func TestVerdictDebouncer_ChangesAfterDebounceTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s VerdictDebouncer
		now := time.Unix(1e9, 0)
		kinds := []Verdict{{Health: Running, Bottleneck: LimitRanks}, {Health: Running, Bottleneck: LimitDocuments},
			{Health: Waiting, Reason: fault.SourceDry}, {Health: Waiting, Reason: fault.PoolFilling}}
		same := now // last time at which a verdict had the kind that is shown
		for i := range rapid.IntRange(1, 200).Draw(t, "seconds") {
			before, _ := s.Verdict()
			v := rapid.SampledFrom(kinds).Draw(t, "verdict")
			s.Update(now, v)
			shown, _ := s.Verdict()
			lasted := now.Sub(same) > debounceTime
			switch changes := shown.kind() != before.kind(); {
			case i > 0 && changes && !lasted:
				t.Fatalf("it changes %s after a moment that had its kind", now.Sub(same))
			case i > 0 && !changes && lasted && v.kind() != before.kind():
				t.Fatalf("no moment has had the kind that is shown for %s", now.Sub(same))
			}
			if v.kind() == shown.kind() {
				same = now
			}
			now = now.Add(time.Second)
		}
	})
}
