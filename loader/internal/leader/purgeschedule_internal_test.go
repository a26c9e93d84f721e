package leader

import (
	"testing"
	"time"

	"loaderd/loader/plan"
)

// Documents are purged once they have been unneeded for the whole period, unless a later reader needs them.
func TestPurgeSchedule_PurgesAfterUnneededPeriod(t *testing.T) {
	start := time.Unix(0, 0)
	s := purgeSchedule{purged: plan.PositionBefore(1)}
	for i, x := range []struct {
		at   time.Duration
		from uint64 // needed
		want uint64
	}{
		{0, 1, 1},
		{time.Second, 100, 1},
		{5 * time.Second, 200, 1},
		{11 * time.Second, 200, 100},
		{12 * time.Second, 40, 100}, // purged documents stay purged
		{16 * time.Second, 40, 100}, // 200 is due, but a reader requests old steps
		{17 * time.Second, 150, 150},
		{18 * time.Second, 300, 200},
		{28 * time.Second, 250, 250},
		{29 * time.Second, 300, 300},
	} {
		to := s.nextPurge(plan.PositionBefore(x.from), start.Add(x.at), 10*time.Second)
		if to != plan.PositionBefore(x.want) {
			t.Fatalf("%d: documents below %d may go, want %d", i, to.Next(), x.want)
		}
		s.recordPurge(to)
	}
	if len(s.entries) > 0 {
		t.Errorf("still waiting: %v", s.entries)
	}
}
