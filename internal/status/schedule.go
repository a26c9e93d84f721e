package status

import (
	"loaderd/internal/api"
	"loaderd/loader/runconfig"
)

// scheduleStatus returns the status of a run's schedule, nil if all steps have the same size.
func scheduleStatus(s runconfig.Schedule, c runconfig.Config) *api.ScheduleStatus {
	if len(s.Phases) < 2 {
		return nil
	}
	out := &api.ScheduleStatus{Phase: s.Current(), Rows: s.Rows(), Steps: s.Steps, Tokens: s.Tokens,
		PhaseCount: len(s.Phases)}
	if s.ChangesBuckets() {
		out.Buckets = s.Buckets(c)
	}
	if change, ok := s.NextChange(); ok {
		out.NextChange = &change
	}
	// the current phase and those after it, and before them as many as fit
	first := max(min(s.Current(), len(s.Phases)-api.MaxPhases), 0)
	for i, p := range s.Phases[first:min(first+api.MaxPhases, len(s.Phases))] {
		if s.ChangesBuckets() && len(p.Buckets) == 0 {
			p.Buckets = c.Packing.Buckets
		}
		out.Phases = append(out.Phases, api.SchedulePhase{Index: first + i, ScheduledPhase: p})
	}
	return out
}
