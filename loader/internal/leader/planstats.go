package leader

import (
	"strings"
	"time"

	"loaderd/loader/state"
)

// publishStats publishes the planner's statistics, and the changes of world sizes that wait for ranks.
func (l *loop) publishStats() {
	p := l.applier.Planner
	var s state.PlanStats
	s.Counts, s.PackCounts = p.Counts()
	s.Pool, s.WindowRows, s.QueuedRows = p.BufferSizes()
	s.Capacity = p.Capacity()
	s.Queues = p.Queues()
	if o := &l.setup.Options; o.FlushesEarly() && !p.IsWarmedUp() {
		s.Shortage, s.FlushAt = p.EarlyShortage(), l.earlyFlushes.due(o.FirstStepDocuments)
	} else {
		s.Shortage = p.Shortage()
	}
	s.Cursor = p.Cursor()
	s.LowWatermark = p.LowWatermark()
	s.PackingCounters = p.Detail()
	source, _, wants := p.NextDocument()
	s.NextSource, s.Idle = source, !wants
	m, counts := p.Mixture(), p.SourceCounts()
	for i, x := range m.Status() {
		s.Sources = append(s.Sources, state.SourceStats{Status: x, SourceCounts: counts[i], Start: p.Infos()[i].Start,
			Next: m.NextSequence(i), Where: p.Filters.Selection(i).Filters.Source.Text()})
	}
	boundFilters(s.Sources)
	l.filteredInRow.observeChanges(p.Filters)
	s.Where, s.FilteredInRow = p.Filters.RunExpression(), l.filteredInRow.documents
	l.stats = s
	l.status.setStats(s)
	l.status.setResizes(l.commands.rendezvous.Pending(time.Now()))
}

const (
	// maxReportedFilters bounds the expressions of all sources in the statistics, in bytes.
	maxReportedFilters = 64 << 10
	// maxCutFilter is the length of an expression beyond this bound, in bytes.
	maxCutFilter = 64
)

// boundFilters cuts the expressions of sources beyond maxReportedFilters.
func boundFilters(sources []state.SourceStats) {
	room := maxReportedFilters
	for i := range sources {
		if where := sources[i].Where; len(where) > max(room, maxCutFilter) {
			sources[i].Where = strings.ToValidUTF8(where[:maxCutFilter], "") + "..."
		}
		room -= len(sources[i].Where)
	}
}
