package leader

import (
	"time"

	"loaderd/loader/state"
)

// snapshot takes the planner's figures for report.
func (l *Leader) snapshot() {
	p := l.applier.Planner
	var s state.PlanStats
	s.Counts, s.Packed = p.Counts()
	s.Pool, s.Window, s.Queued = p.Waiting()
	s.Capacity = p.Capacity()
	s.Queues = p.Queues()
	if l.Options.DrainsEarly() && !p.Primed() {
		s.Lacks, s.DrainAt = p.EarlyShortage(), l.earlyDrains.due(l.Options.FirstStepDocuments)
	} else {
		s.Lacks = p.Shortage()
	}
	s.Cursor = p.Cursor()
	s.Floor = p.Floor()
	s.Detail = p.Detail()
	source, _, wants := p.Wants()
	s.Wants, s.Idle = source, !wants
	m, counts := p.Mixture(), p.SourceCounts()
	for i, x := range m.Status() {
		s.Sources = append(s.Sources, state.SourceStats{Status: x, SourceCounts: counts[i], Start: p.Infos()[i].Start, Next: m.Sequence(i)})
	}
	l.mu.Lock()
	s.CursorBefore = l.figures.Cursor
	if l.counted && s.Cursor != s.CursorBefore {
		l.planned = time.Now()
	}
	l.counted = true
	l.figures = s
	l.mu.Unlock()
}
