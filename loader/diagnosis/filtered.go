package diagnosis

import (
	"fmt"
	"strings"

	"loaderd/internal/humanize"
	"loaderd/loader/state"
)

// minFilteredInRow is the number of documents after which filters that reject all of them are named as the cause of a
// wait. A filter that rejects all documents so far is named at once.
const minFilteredInRow = 1000

// describeFilters returns that filters reject all recent documents, with their expressions; empty if they do not.
func describeFilters(p *state.PlanStats) string {
	n := p.FilteredInRow
	if n == 0 || n < minFilteredInRow && n < p.Counts.Arrived {
		return ""
	}
	var filters []string
	if p.Where != "" {
		filters = append(filters, "documents.where: "+p.Where)
	}
	for _, s := range p.Sources {
		if s.Where != "" && !s.Removed {
			filters = append(filters, fmt.Sprintf("where of source %q: %s", s.Name, s.Where))
		}
	}
	const most = 3
	if len(filters) > most {
		filters = append(filters[:most], "...")
	}
	return fmt.Sprintf("filters rejected all of the last %s (%s)", humanize.Things(int(n), "document"),
		strings.Join(filters, "; "))
}

// filterAdvice is the advice when filters reject all documents.
const filterAdvice = "check the filters (loaderd filter shows and changes them), or publish documents that match them"
