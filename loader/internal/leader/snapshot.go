package leader

import (
	"loaderd/loader/state"
)

// snapshot publishes the planner's statistics.
func (l *loop) snapshot() {
	p := l.applier.Planner
	var s state.PlanStats
	s.Counts, s.Packed = p.Counts()
	s.Pool, s.Window, s.Queued = p.Waiting()
	s.Capacity = p.Capacity()
	s.Queues = p.Queues()
	if o := &l.setup.Options; o.DrainsEarly() && !p.Primed() {
		s.Lacks, s.DrainAt = p.EarlyShortage(), l.earlyDrains.due(o.FirstStepDocuments)
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
		s.Sources = append(s.Sources, state.SourceStats{Status: x, SourceCounts: counts[i], Start: p.Infos()[i].Start,
			Next: m.Sequence(i)})
	}
	l.stats = s
	l.status.setStats(s)
}
