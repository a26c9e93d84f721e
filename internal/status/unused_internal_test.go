package status

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// The filters of a status are those in effect and the sources with filtered documents, those with the most first. Their
// number is bounded.
func TestFilterStatuses(t *testing.T) {
	source := func(name, where string, filtered int64, removed bool) state.SourceStats {
		var skips plan.Skips
		skips.Add(plan.SkipFiltered, filtered)
		return state.SourceStats{Status: mixture.Status{Name: name, Removed: removed}, Where: where,
			SourceCounts: planner.SourceCounts{Skipped: skips}}
	}
	stats := func(where string, filtered int64, sources ...state.SourceStats) (s loader.Stats) {
		s.Skipped.Add(plan.SkipFiltered, filtered)
		s.Where, s.Sources = where, sources
		return s
	}
	for name, tt := range map[string]struct {
		stats loader.Stats
		want  []api.FilterStatus
	}{
		"none": {stats("", 0, source("a", "", 0, false)), nil},
		"run": {stats("tokens > 1", 3, source("a", "", 3, false)),
			[]api.FilterStatus{{Where: "tokens > 1", Documents: 3}}},
		"one source": {stats("", 0, source("a", "id == ''", 0, false)),
			[]api.FilterStatus{{}, {Source: "a", Where: "id == ''"}}},
		"several": {stats("", 9, source("a", "tokens > 2", 0, false), source("b", "", 2, false),
			source("c", "tokens > 1", 7, true), source("d", "tokens > 1", 0, true)),
			[]api.FilterStatus{{Documents: 9}, {Source: "c", Where: "tokens > 1", Documents: 7},
				{Source: "b", Documents: 2}, {Source: "a", Where: "tokens > 2"}}},
	} {
		if got := unusedDocuments(tt.stats); !reflect.DeepEqual(got.Filters, tt.want) || got.FilterCount != len(tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	var many []state.SourceStats
	for i := range 100 {
		many = append(many, source(fmt.Sprintf("s%03d", i), "tokens > 1", int64(i), false))
	}
	got := unusedDocuments(stats("", 1, many...))
	if len(got.Filters) != api.MaxFilters || got.FilterCount != 101 || got.Filters[1].Source != "s099" {
		t.Errorf("%d filters of %d, first %+v", len(got.Filters), got.FilterCount, got.Filters[1])
	}
}

// The status has the phases from the current one on, and as many of the preceding ones as fit.
func TestScheduleStatus(t *testing.T) {
	c := runconfig.Config{}
	c.Packing.Buckets, c.Steps.Rows = []int{16}, 4
	for i := range 99 {
		c.Steps.Schedule = append(c.Steps.Schedule, runconfig.Phase{FromStep: int64(i + 1), Rows: 8 + 4*(i%2)})
	}
	for steps, first := range map[int]int{0: 0, 20: 20, 99: 36} {
		s := runconfig.NewSchedule(c)
		for range steps {
			s.Advance(64)
		}
		got := scheduleStatus(s, c)
		if got.Phase != steps || got.PhaseCount != 100 || got.Steps != uint64(steps) || got.Tokens != 64*int64(steps) ||
			len(got.Phases) != api.MaxPhases || got.Buckets != nil || got.Phases[0].Buckets != nil ||
			got.Phases[0].Index != first || got.Rows[0] != s.Rows()[0] ||
			(got.NextChange == nil) != (steps == 99) {
			t.Errorf("after %d steps: %+v", steps, got)
		}
	}
	c.Steps.Schedule = []runconfig.Phase{{FromStep: 3, Rows: 8}, {FromStep: 5, Rows: 2, Buckets: []int{32, 64}}}
	for steps, want := range map[int][]int{0: {16}, 4: {16}, 5: {32, 64}} {
		s := runconfig.NewSchedule(c)
		for range steps {
			s.Advance(64)
		}
		got := scheduleStatus(s, c)
		if !slices.Equal(got.Buckets, want) || !slices.Equal(got.Phases[1].Buckets, []int{16}) ||
			!slices.Equal(got.Phases[2].Buckets, []int{32, 64}) {
			t.Errorf("row lengths after %d steps: %+v", steps, got)
		}
		if next := got.NextChange; steps == 4 && !slices.Equal(next.Buckets, []int{32, 64}) ||
			steps == 0 && next.Buckets != nil {
			t.Errorf("the change after %d steps has the row lengths %v", steps, next.Buckets)
		}
	}
	if s := runconfig.NewSchedule(c); s.Phases[1].Buckets != nil {
		t.Errorf("the schedule has changed: %+v", s.Phases)
	}
	c.Steps.Schedule = nil
	if got := scheduleStatus(runconfig.NewSchedule(c), c); got != nil {
		t.Errorf("steps of one size have the schedule %+v", got)
	}
}
