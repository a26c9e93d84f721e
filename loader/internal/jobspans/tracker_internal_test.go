package jobspans

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"loaderd/loader/backend"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// For any sequence of jobs, no more than the bound are tracked. What an uncommitted job retains stays retained for
// its period, under its own name or as the unnamed job.
func TestTracker_JobsAreBoundedAndRetained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const after = time.Hour
		s := New(backend.Options{IdleReaderTimeout: after})
		now := time.Unix(0, 0)
		commits := planrecord.Commits{"job 1": {Step: 3}}
		type life struct {
			from uint64
			gone time.Time
		}
		lives := map[string]life{}
		n := maxClosedJobs + rapid.IntRange(1, 80).Draw(t, "jobs")
		for i := range n {
			job, from := fmt.Sprint("job ", i), rapid.Uint64Range(0, 9).Draw(t, "from")
			s.Open(job, from, from+5, now)
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			s.Close(job, commits, now)
			lives[job] = life{from, now}
		}
		if len(s.ByJob) > maxClosedJobs+1 {
			t.Fatalf("%d jobs are remembered", len(s.ByJob))
		}
		at := now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "later")) * time.Second)
		want := uint64(state.NoStep)
		for job, x := range lives {
			if _, committed := commits[job]; !committed && at.Sub(x.gone) < after {
				want = min(want, x.from)
			}
		}
		if _, have := (state.Demand{Jobs: s.AddTo(nil, at)}).RetainingJob(commits); have > want {
			t.Fatalf("documents are retained from step %d on, want %d", have, want)
		}
		if _, have := (state.Demand{Jobs: s.AddTo(nil, now.Add(after))}).RetainingJob(commits); have != state.NoStep {
			t.Fatalf("documents are retained from step %d on after %s", have, after)
		}
	})
}

func TestTracker_JobRetainsFromItsFirstStep(t *testing.T) {
	s, now := New(backend.Options{}), time.Unix(0, 0)
	retains := func() uint64 {
		_, step := state.Demand{Jobs: s.AddTo(nil, now)}.RetainingJob(nil)
		return step
	}
	s.Open("a", 7, 7, now)
	s.Open("a", 9, 9, now) // another rank, or a new stream
	if got := retains(); got != 7 {
		t.Errorf("retained from %d on", got)
	}
	s.Open("a", 4, 20, now) // a client that has read from step 4 on before a restart
	if got := retains(); got != 4 || s.sentSteps("a") != 20 {
		t.Errorf("retained from %d on, sent %d", got, s.sentSteps("a"))
	}
	s.Close("a", nil, now)
	now = now.Add(DefaultRetention - 1)
	if got := retains(); got != 4 {
		t.Errorf("retained from %d on, shortly before its time", got)
	}
	now = now.Add(1)
	if got := retains(); got != state.NoStep || s.sentSteps("a") != 20 {
		t.Errorf("retained from %d on, sent %d", got, s.sentSteps("a"))
	}
	s.Open("a", 15, 15, now)
	if got := retains(); got != 15 || s.sentSteps("a") != 20 {
		t.Errorf("retained from %d on, sent %d", got, s.sentSteps("a"))
	}
	s.Leave("a")
	if got := retains(); got != 20 {
		t.Errorf("a job that has left retains from %d on", got)
	}
}
