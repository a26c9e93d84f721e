package leader

import (
	"fmt"
	"strings"
	"testing"

	"loaderd/loader/state"
)

// The expressions of many sources do not exceed what daemons report to each other.
func TestBoundFilters(t *testing.T) {
	long := strings.Repeat(`meta.lang == "é" || `, 200)
	var sources []state.SourceStats
	for i := range 1024 {
		sources = append(sources, state.SourceStats{Where: long + fmt.Sprint(i)})
	}
	sources = append(sources, state.SourceStats{Where: "tokens > 1"})
	boundFilters(sources)
	total := 0
	for _, s := range sources {
		total += len(s.Where)
	}
	if total > maxReportedFilters+len(sources)*(maxCutFilter+len("...")) || sources[0].Where != long+"0" ||
		!strings.HasSuffix(sources[1023].Where, "...") || sources[1024].Where != "tokens > 1" {
		t.Errorf("%d bytes: %.99q, %q, %q", total, sources[0].Where, sources[1023].Where, sources[1024].Where)
	}
}
