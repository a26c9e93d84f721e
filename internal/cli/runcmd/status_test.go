package runcmd

import (
	"slices"
	"strings"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/top"
	"loaderd/internal/tui"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// status shows the stream that is closest to its limit, and the estimated time until it is full.
func TestStatus_ShowsFullestStream(t *testing.T) {
	soon := 2400.
	for _, tc := range []struct {
		name    string
		streams []state.StreamFill
		want    string // a part of the line; empty for no line
	}{
		{"none", nil, ""},
		{"unlimited", []state.StreamFill{{Name: "DOCS", Bytes: 9}}, ""},
		{"room", []state.StreamFill{{Name: "DOCS", Bytes: 1 << 20, MaxBytes: 1 << 30}},
			"1.0 MiB of 1.0 GiB in stream DOCS\n"},
		{"fullest", []state.StreamFill{{Name: "DOCS_a", Bytes: 5, MaxBytes: 10},
			{Name: "DOCS_b", Bytes: 9, MaxBytes: 10, FullInSeconds: &soon},
			{Name: "DOCS_c", Bytes: 100}}, "9 B of 10 B in stream DOCS_b, full in about 40 min\n"},
		{"full", []state.StreamFill{{Name: "DOCS", Bytes: 10, MaxBytes: 10, Full: true}},
			"10 B of 10 B in stream DOCS, full\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			if err := writeStatus(&out, api.Status{Streams: tc.streams}); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); strings.Contains(got, "stored") != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("output of status: %q, want %q", got, tc.want)
			}
		})
	}
}

// status shows the size of the next step, its phase, the next change, and all phases; top shows the phase and the rows.
func TestStatus_ShowsSchedule(t *testing.T) {
	first := uint64(0)
	x := &api.ScheduleStatus{Phase: 0, Rows: []int{64}, PhaseCount: 3,
		NextChange: &runconfig.ScheduleChange{Phase: 1, Rows: []int{128}, Tokens: 2_500_000},
		Phases: []api.SchedulePhase{{ScheduledPhase: runconfig.ScheduledPhase{StepRows: []int{64}, FirstStep: &first}},
			{Index: 1, ScheduledPhase: runconfig.ScheduledPhase{StepRows: []int{128},
				Phase: runconfig.Phase{FromTokens: 3e9, Rows: 128}}}}}
	s := api.Status{StepSizes: api.StepSizes{Schedule: x}}
	var out strings.Builder
	if err := writeStatus(&out, s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"step size  64 rows, phase 0 of 2; 128 rows in 2.50M tokens (phase 1)\n",
		"    1  3,000,000,000 tokens         128\n", "loaderd schedule prints all phases\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output of status lacks %q:\n%s", want, out.String())
		}
	}
	cells := map[string]string{}
	for _, c := range top.NewContent(s).Cells {
		cells[c.Label] = c.Value
	}
	if cells["phase"] != "0 of 2" || cells["rows/step"] != "64" {
		t.Errorf("cells of top: %v", cells)
	}
	x.Buckets, x.NextChange.Buckets = []int{4096}, []int{8192, 32768}
	if got := scheduleOf(x); got !=
		"64 rows of 4,096 tokens, phase 0 of 2; 128 rows of 8,192 to 32,768 tokens in 2.50M tokens (phase 1)" {
		t.Errorf("with row lengths: %s", got)
	}
	if cells := top.NewContent(s).Cells; cells[len(cells)-1] != (tui.Cell{Label: "tokens/row", Value: "4,096"}) {
		t.Errorf("cells of top with row lengths: %v", cells)
	}
	c := runconfig.Config{}
	c.Packing.Buckets, c.Steps.Rows = []int{16}, 4
	c.Steps.Schedule = []runconfig.Phase{{FromStep: 1, Rows: 8, Buckets: []int{32}}}
	schedule := runconfig.NewSchedule(c)
	schedule.Advance(64)
	out.Reset()
	if err := writeSchedule(&out, api.ScheduleResponse{Schedule: schedule}); err != nil ||
		!strings.Contains(out.String(), "the next step has 8 rows of 32 tokens\n") {
		t.Errorf("%v, output of schedule: %s", err, out.String())
	}
	x.Buckets, x.NextChange = nil, &runconfig.ScheduleChange{Rows: []int{72}, Steps: 1}
	if got := scheduleOf(x); got != "64 rows, phase 0 of 2; 72 rows in 1 step" {
		t.Errorf("in a ramp: %s", got)
	}
	if x.NextChange = nil; scheduleOf(x) != "64 rows, phase 0 of 2, the last" {
		t.Errorf("at the end: %s", scheduleOf(x))
	}
}

func TestStatus_ShowsFilters(t *testing.T) {
	s := api.Status{UnusedDocuments: api.UnusedDocuments{Filters: []api.FilterStatus{{Documents: 1200},
		{Source: "web", Where: strings.Repeat("tokens > 1 || ", 10) + "false", Documents: 1200}}}}
	var out strings.Builder
	if err := writeStatus(&out, s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"   1,200  all sources   -\n", "   1,200  source web    tokens > 1 || ",
		"tokens > 1...\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output of status lacks %q:\n%s", want, out.String())
		}
	}
}

// status and top show which ranks a change of the world size waits for.
func TestStatus_ShowsPendingResize(t *testing.T) {
	s := api.Status{JobDetails: api.JobDetails{Resizes: []api.ResizeStatus{{Sentence: "Rank 1 has not called resize"}}}}
	var out strings.Builder
	if err := writeStatus(&out, s); err != nil {
		t.Fatal(err)
	}
	if want := "  pending resize  Rank 1 has not called resize\n"; !strings.Contains(out.String(), want) {
		t.Errorf("output of status lacks %q:\n%s", want, out.String())
	}
	if got := top.NewContent(s).Lines; !slices.Equal(got, []string{"Rank 1 has not called resize"}) {
		t.Errorf("lines of top: %q", got)
	}
}
