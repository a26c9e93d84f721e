package daemon

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"loaderd/arrowout"
	"loaderd/loader"
	"loaderd/loader/census"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// reads returns a stream that was sent all steps before step.
func reads(job string, rank int, step uint64) arrowout.StreamStats {
	return arrowout.StreamStats{RankID: state.RankID{Job: job, Rank: rank, World: 1000}, Step: step,
		WaitP50: 20 * time.Millisecond, WaitP99: 3 * time.Second, BytesPerSecond: 1e6}
}

// ranked returns the metrics of a daemon that serves streams. None of their clients reports its consumption.
func ranked(streams ...arrowout.StreamStats) rankMetrics {
	at, c := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), census.New()
	for _, t := range streams {
		c.Open(census.ProcessID{Key: census.Key{Job: t.Job, World: t.World}, Rank: t.Rank, Peer: t.Peer}, census.Client{},
			t.Step, at)
	}
	return rankMetrics{func() []arrowout.StreamStats {
		return streams
	}, func() census.View {
		return c.View(at)
	}, func() loader.Info {
		return loader.Info{Commits: planrecord.Commits{"a": {Step: 7, Skipped: 2}, "gone": {Step: 3}},
			WorldSizes: planrecord.WorldSizes{"a": {Step: 5, Ranks: 2}}}
	}}
}

// Each rank and each job has its own values. If two streams read as one rank, the slower one counts, and the
// collection stays valid.
func TestRankMetrics_PerRankAndJob(t *testing.T) {
	have := gathered(t, ranked(reads("a", 0, 12), reads("a", 1, 10), reads("a", 1, 2), reads("b", 0, 100)))
	for name, want := range map[string]float64{
		"loaderd_rank_step 0 a": 12, "loaderd_rank_step 1 a": 2, "loaderd_rank_step 0 b": 100,
		"loaderd_rank_lag_steps 0 a": 0, "loaderd_rank_lag_steps 1 a": 10,
		"loaderd_rank_lag_steps 0 b": 0, "loaderd_rank_wait_p50_seconds 0 a": 0.02, "loaderd_rank_wait_p99_seconds 0 b": 3,
		"loaderd_rank_bytes_per_second 1 a": 1e6,
		"loaderd_job_ranks a":               2, "loaderd_job_ranks b": 1, "loaderd_job_slowest_step a": 2,
		"loaderd_job_fastest_step a":   12,
		"loaderd_job_committed_step a": 7, "loaderd_job_committed_step gone": 3,
		"loaderd_job_skipped_steps a": 2, "loaderd_job_world_step a": 5,
	} {
		if got, there := have[name]; got != want || !there {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if want := 3*5 + 2*4 + 4; len(have) != want {
		t.Errorf("%d figures, want %d: %v", len(have), want, have)
	}
}

// The number of values is bounded for any number of ranks and jobs. The ranks shown are those furthest behind.
func TestRankMetrics_NumberIsBounded(t *testing.T) {
	var streams []arrowout.StreamStats
	for i := range 1000 {
		streams = append(streams, reads("big", i, uint64(1000+i)), reads(fmt.Sprintf("job-%d", i), 0, 5))
	}
	have := gathered(t, ranked(streams...))
	if want := maxShownRanks*len(perRankMetrics) + maxShownJobs*4 + 4; len(have) != want {
		t.Errorf("%d figures, want %d", len(have), want)
	}
	for i, shown := range map[int]bool{0: true, maxShownRanks - 1: true, maxShownRanks: false, 999: false} {
		if _, there := have[fmt.Sprintf("loaderd_rank_step %d big", i)]; there != shown {
			t.Errorf("rank %d is shown: %v, want %v", i, there, shown)
		}
	}
}

// A missing rank has a value, as has every rank whose client reports and every job. Of several processes of a rank,
// the one that has consumed least counts.
func TestRankMetrics_MissingRank(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := census.New()
	for n := range 3 {
		id := census.ProcessID{Key: census.Key{Job: "a", World: 4}, Rank: n / 2, Peer: n % 2}
		c.Open(id, census.Client{Session: "s"}, 0, at)
		c.RecordReport(id, census.Report{Session: "s", Delivered: 40 + uint64(n), Waiting: true}, at)
	}
	c.Open(census.ProcessID{Key: census.Key{Job: "a", World: 1}}, census.Client{}, 0, at)
	m := ranked()
	m.ranks = func() census.View { return c.View(at.Add(4 * time.Second)) }
	want := map[string]float64{"loaderd_rank_consumed_step 0 a": 40, "loaderd_rank_consumed_step 1 a": 42,
		"loaderd_job_world a":        4,
		"loaderd_job_slowest_step a": 40, "loaderd_job_fastest_step a": 42, "loaderd_job_committed_step a": 7,
		"loaderd_job_committed_step gone": 3,
		"loaderd_job_skipped_steps a":     2, "loaderd_job_world_step a": 5}
	if have := gathered(t, m); !maps.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	m.ranks = func() census.View {
		return census.View{Jobs: []census.Job{{Key: census.Key{Job: "a", World: 4}, MinConsumed: 30,
			MaxConsumed: 34, Slack: 5,
			Finding: &census.Finding{State: census.Absent, Level: census.Critical, Ranks: []int{2, 3}, Age: 20 * time.Second}},
			{Key: census.Key{Job: "b", World: 2}, Finding: &census.Finding{State: census.Stuck, Level: census.Warning,
				Ranks: []int{0}, Age: 20 * time.Second}}}}
	}
	want = map[string]float64{"loaderd_rank_missing_seconds 2 a": 20, "loaderd_rank_missing_seconds 3 a": 20,
		"loaderd_job_world a": 4, "loaderd_job_world b": 2,
		"loaderd_job_slowest_step a": 30, "loaderd_job_fastest_step a": 30, "loaderd_job_slowest_step b": 0,
		"loaderd_job_fastest_step b":   0,
		"loaderd_job_committed_step a": 7, "loaderd_job_committed_step gone": 3,
		"loaderd_job_skipped_steps a": 2, "loaderd_job_world_step a": 5}
	if have := gathered(t, m); !maps.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}
