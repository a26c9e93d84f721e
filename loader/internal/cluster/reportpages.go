package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/state"
)

const (
	// maxReportBytes bounds an encoded report within a heartbeat, and a sourcePage.
	maxReportBytes = 32 << 10
	// maxReportText bounds a text of external origin in a paged report.
	maxReportText = 2 << 10
	// maxReportPages bounds the pages of a report. A run with 1024 sources needs about 40.
	maxReportPages = 256
)

// sourcePage is a part of a leader's report about its sources. It has its own heartbeat.
type sourcePage struct {
	Round       uint64                           `json:"round"` // of the report
	Page        int                              `json:"page"`
	SourceStats []state.SourceStats              `json:"figures,omitempty"` // report.PlanStats.Sources
	Status      map[string]document.SourceStatus `json:"status,omitempty"`  // report.Sources
	Streams     []state.StreamFill               `json:"streams,omitempty"` // report.Streams
	Open        []string                         `json:"open,omitempty"`    // report.Length.Open
}

// validate returns an error for a page that no leader sends. bytes is the size of its heartbeat.
func (p *sourcePage) validate(bytes int) error {
	if p.Page < 0 || p.Page >= maxReportPages || bytes > maxHeartbeatBytes {
		return fmt.Errorf("page %d of a report, in %d bytes", p.Page, bytes)
	}
	return nil
}

// splitReport returns the report for a heartbeat. If the report exceeds maxReportBytes, its per-source parts are in
// pages.
func splitReport(r state.Report, round uint64) (state.Report, []sourcePage) {
	if jsonSize(r) <= maxReportBytes {
		return r, nil
	}
	var pages []sourcePage
	left := 0
	page := func(x any) *sourcePage {
		n := jsonSize(x) + len(",")
		if left -= n; left < 0 {
			left = maxReportBytes - n
			pages = append(pages, sourcePage{Round: round, Page: len(pages)})
		}
		return &pages[len(pages)-1]
	}
	for _, x := range r.PlanStats.Sources {
		p := page(x)
		p.SourceStats = append(p.SourceStats, x)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Sources)) {
		x := shortenStatus(r.Sources[name])
		p := page(map[string]document.SourceStatus{name: x})
		if p.Status == nil {
			p.Status = map[string]document.SourceStatus{}
		}
		p.Status[name] = x
	}
	for _, x := range r.StreamFills {
		p := page(x)
		p.Streams = append(p.Streams, x)
	}
	r.PlanStats.Sources, r.Sources, r.StreamFills = nil, nil, nil
	if r.Length != nil {
		for _, name := range r.Length.OpenSources {
			p := page(name)
			p.Open = append(p.Open, name)
		}
		length := *r.Length
		length.OpenSources, r.Length = nil, &length
	}
	r.StreamProblem = truncateText(r.StreamProblem)
	if r.Opening != nil {
		o := *r.Opening
		o.Error, r.Opening = truncateText(o.Error), &o
	}
	if r.Source != nil {
		s := shortenStatus(*r.Source)
		r.Source = &s
	}
	r.Round, r.Pages = round, len(pages)
	return r, pages
}

func shortenStatus(s document.SourceStatus) document.SourceStatus {
	s.DownReason = truncateText(s.DownReason)
	return s
}

func truncateText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReportText)], "")
}

// jsonSize returns the length of a value as JSON.
func jsonSize(x any) int {
	b, _ := json.Marshal(x) // an error would also fail the encoding of the heartbeat
	return len(b)
}

// reportPages holds the pages of a report that another daemon has sent so far.
type reportPages struct {
	round uint64
	pages map[int]*sourcePage
}

func (r *reportPages) add(p *sourcePage) {
	if r.pages == nil || r.round != p.Round {
		*r = reportPages{p.Round, map[int]*sourcePage{}}
	}
	r.pages[p.Page] = p
}

// joinReport returns a report with its pages. While a page is missing, the per-source parts are those of the previous
// report.
func (r *reportPages) joinReport(x, before state.Report) state.Report {
	if x.Pages == 0 {
		return x
	}
	whole := sourcePage{Status: map[string]document.SourceStatus{}}
	for i := range x.Pages {
		p := r.pages[i]
		if p == nil || r.round != x.Round {
			whole = sourcePage{SourceStats: before.PlanStats.Sources, Status: before.Sources, Streams: before.StreamFills}
			if before.Length != nil {
				whole.Open = before.Length.OpenSources
			}
			break
		}
		whole.SourceStats, whole.Streams, whole.Open = append(whole.SourceStats, p.SourceStats...),
			append(whole.Streams, p.Streams...),
			append(whole.Open, p.Open...)
		maps.Copy(whole.Status, p.Status)
	}
	if len(whole.SourceStats) > mixture.MaxSources {
		return x
	}
	x.PlanStats.Sources, x.Sources, x.StreamFills = whole.SourceStats, whole.Status, whole.Streams
	if x.Length != nil {
		length := *x.Length
		length.OpenSources, x.Length = whole.Open, &length
	}
	return x
}
