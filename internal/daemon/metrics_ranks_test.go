package daemon

import (
	"fmt"
	"testing"
	"time"

	"loaderd/arrowout"
	"loaderd/loader"
	"loaderd/loader/plan"
)

// reads is a stream that has got the steps before one.
func reads(job string, rank int, step uint64) arrowout.Traffic {
	return arrowout.Traffic{Place: loader.Place{Job: job, Rank: rank, World: 8}, Step: step, WaitP50: 20 * time.Millisecond, WaitP99: 3 * time.Second, Bytes: 1e6}
}

func ranked(streams ...arrowout.Traffic) rankMetrics {
	return rankMetrics{func() []arrowout.Traffic { return streams }, func() plan.Keepers { return plan.Keepers{"a": 7, "gone": 3} }}
}

// Each rank and each job has its figures. Where two streams read as one rank, the slower one counts, and the collection stays valid.
func TestRankMetrics(t *testing.T) {
	have := gathered(t, ranked(reads("a", 0, 12), reads("a", 1, 10), reads("a", 1, 2), reads("b", 0, 100)))
	for name, want := range map[string]float64{
		"loaderd_rank_step 0 a": 12, "loaderd_rank_step 1 a": 2, "loaderd_rank_step 0 b": 100, "loaderd_rank_lag_steps 0 a": 0, "loaderd_rank_lag_steps 1 a": 10,
		"loaderd_rank_lag_steps 0 b": 0, "loaderd_rank_wait_p50_seconds 0 a": 0.02, "loaderd_rank_wait_p99_seconds 0 b": 3, "loaderd_rank_bytes_per_second 1 a": 1e6,
		"loaderd_job_ranks a": 2, "loaderd_job_ranks b": 1, "loaderd_job_slowest_step a": 2, "loaderd_job_fastest_step a": 12,
		"loaderd_job_committed_step a": 7, "loaderd_job_committed_step gone": 3,
	} {
		if got, there := have[name]; got != want || !there {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if want := 3*5 + 2*3 + 2; len(have) != want {
		t.Errorf("%d figures, want %d: %v", len(have), want, have)
	}
}

// However many ranks and jobs read, the number of figures is bounded; the ranks that are shown are those furthest behind.
func TestRankMetricsAreBounded(t *testing.T) {
	var streams []arrowout.Traffic
	for i := range 1000 {
		streams = append(streams, reads("big", i, uint64(1000+i)), reads(fmt.Sprintf("job-%d", i), 0, 5))
	}
	have := gathered(t, ranked(streams...))
	if want := ranksShown*len(rankFigures) + jobsShown*len(jobFigures) + 2; len(have) != want {
		t.Errorf("%d figures, want %d", len(have), want)
	}
	for i, shown := range map[int]bool{0: true, ranksShown - 1: true, ranksShown: false, 999: false} {
		if _, there := have[fmt.Sprintf("loaderd_rank_step %d big", i)]; there != shown {
			t.Errorf("rank %d is shown: %v, want %v", i, there, shown)
		}
	}
}
