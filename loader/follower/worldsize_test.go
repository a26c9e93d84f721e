package follower

import (
	"strings"
	"testing"

	"loaderd/loader/runconfig"
)

func TestFormatDivisors_ShortensLongLists(t *testing.T) {
	for n, want := range map[int]string{1: "1", 12: "1 2 3 4 6 12", 16: "1 2 4 8 16", 17: "1 17"} {
		if got := formatDivisors(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	if got := formatDivisors(720720); !strings.Contains(got, " ... ") || len(strings.Fields(got)) != 33 {
		t.Errorf("720720: got %s", got)
	}
}

func TestCheckWorldSize_ListsValidSizes(t *testing.T) {
	c := runconfig.Config{Steps: runconfig.Steps{Rows: 64, Table: []int{48, 24, 12, 6, 3}}}
	c.Packing.Buckets = []int{1024, 2048, 4096, 8192, 16384}
	for world, want := range map[int]string{1: "", 3: "", 2: "world sizes: 1 3;", 6: "[48 24 12 6 3] by its bucket"} {
		err := CheckWorldSize(runconfig.NewSchedule(c), 0, world)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("world %d: %v, want %q", world, err, want)
		}
	}
	c.Steps = runconfig.Steps{Tokens: 1 << 20}
	if err := CheckWorldSize(runconfig.NewSchedule(c), 0, 64); err != nil {
		t.Error(err)
	}
	if err := CheckWorldSize(runconfig.NewSchedule(c), 0, 128); err == nil {
		t.Error("64 rows of 16,384 tokens were shared by 128 ranks")
	}
}

func TestCheckWorldSize_NamesPhase(t *testing.T) {
	ramp := runconfig.Phase{FromStep: 5, RampSteps: 4, Rows: 96, Increment: 16}
	c := runconfig.Config{Steps: runconfig.Steps{Rows: 32, Schedule: []runconfig.Phase{ramp}}}
	c.Packing.Buckets = []int{1024}
	s := runconfig.NewSchedule(c)
	err := CheckWorldSize(s, 0, 32)
	if err == nil || !strings.Contains(err.Error(), "phase 1 of steps.schedule, from step 5") ||
		!strings.Contains(err.Error(), "world sizes: 1 2 4 8 16;") {
		t.Errorf("32 ranks, with a ramp by 16 rows: %v", err)
	}
	c.Steps.Rows, c.Steps.Schedule = 6, []runconfig.Phase{{FromStep: 5, Rows: 8}}
	s = runconfig.NewSchedule(c)
	for range 5 {
		s.Advance(1)
	}
	if err := CheckWorldSize(s, 4, 8); err == nil {
		t.Error("8 ranks share the 6 rows of step 4")
	}
	if err := CheckWorldSize(s, 5, 8); err != nil {
		t.Errorf("a job that resumes in the second phase: %v", err)
	}
}
