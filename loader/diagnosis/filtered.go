package diagnosis

import (
	"fmt"
	"strings"

	"loaderd/internal/humanize"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

const (
	// minFilteredInRow is the number of documents after which filters that reject all of them are named as the cause of a
	// wait. Filters that reject all documents of the run, or of a source that it waits for, are named at once.
	minFilteredInRow = 1000
	// maxNamedFilters is the maximum number of filters in a message, each cut to maxNamedFilter characters.
	maxNamedFilters = 3
	maxNamedFilter  = 200
)

// describeFilters returns that filters reject all recent documents, or all of the source that the plan waits for, if it
// waits for one, with their expressions. It returns an empty text if they do not.
func describeFilters(p *state.PlanStats, waitsFor *state.SourceStats) string {
	rejected, filters := "", activeFilters(p, "")
	switch n := p.FilteredInRow; {
	case n > 0 && (n >= minFilteredInRow || n >= p.Counts.Arrived):
		rejected = "the last " + humanize.Things(int(n), "document")
	case waitsFor != nil && waitsFor.Arrived > 0 && waitsFor.Skipped.Count(plan.SkipFiltered) == waitsFor.Arrived:
		rejected = fmt.Sprintf("the %s of source %q", humanize.Things(int(waitsFor.Arrived), "document"), waitsFor.Name)
		filters = activeFilters(p, waitsFor.Name)
	}
	if rejected == "" || len(filters) == 0 { // without filters: they have been removed since
		return ""
	}
	if len(filters) > maxNamedFilters {
		filters = append(filters[:maxNamedFilters], "...")
	}
	return fmt.Sprintf("filters rejected all of %s (%s)", rejected, strings.Join(filters, "; "))
}

// activeFilters returns the filters of a source, or without a name of all sources.
func activeFilters(p *state.PlanStats, source string) (filters []string) {
	add := func(name, where string) {
		if short := []rune(where); len(short) > maxNamedFilter {
			where = string(short[:maxNamedFilter]) + "..."
		}
		filters = append(filters, name+": "+where)
	}
	if p.Where != "" {
		add("documents.where", p.Where)
	}
	for _, s := range p.Sources {
		if s.Where != "" && !s.Removed && (source == "" || s.Name == source) {
			add(fmt.Sprintf("where of source %q", s.Name), s.Where)
		}
	}
	return filters
}

// filterAdvice is the advice when filters reject all documents.
const filterAdvice = "check the filters (loaderd filter shows and changes them), or publish documents that match them"
