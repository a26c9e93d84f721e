package daemon

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/arrowout"
	"loaderd/loader"
	"loaderd/loader/census"
)

// Limits of the labels, because clients choose ranks and the names of jobs.
const (
	maxShownRanks = 64 // per daemon, the ranks furthest behind their jobs
	maxShownJobs  = 64 // by name
)

// rankMetrics collects what ranks receive from this daemon. The label is train_job, because Prometheus adds a label
// job to every series.
type rankMetrics struct {
	streams func() []arrowout.StreamStats
	ranks   func() census.View
	info    func() loader.Info
}

// rankMetric is a metric with one value per rank.
type rankMetric struct {
	desc  *prometheus.Desc
	value func(laggingRank) float64
}

// laggingRank is a reading rank, and the number of steps by which its consumption lags behind its job's furthest rank.
type laggingRank struct {
	arrowout.StreamStats
	lag uint64
}

func newRankMetric(name, help string, value func(laggingRank) float64) rankMetric {
	return rankMetric{prometheus.NewDesc("loaderd_rank_"+name, help, []string{"train_job", "rank"}, nil), value}
}

var perRankMetrics = []rankMetric{
	newRankMetric("step",
		"First step not sent completely to the rank; of the 64 ranks with the most lag among those "+
			"that read from this daemon.", func(r laggingRank) float64 { return float64(r.Step) }),
	newRankMetric("lag_steps",
		"Steps by which the rank lags behind the furthest rank of its job, over all daemons; 0 "+
			"if the reports are too far apart in time.", func(r laggingRank) float64 { return float64(r.lag) }),
	newRankMetric("wait_p50_seconds",
		"Median of the rank's waits for its next step in the last minute, including the current wait.",
		func(r laggingRank) float64 { return r.WaitP50.Seconds() }),
	newRankMetric("wait_p99_seconds", "99th percentile of the rank's waits for its next step in the last minute.",
		func(r laggingRank) float64 { return r.WaitP99.Seconds() }),
	newRankMetric("bytes_per_second", "Bytes per second sent to the rank, over the last ten seconds.",
		func(r laggingRank) float64 {
			return r.BytesPerSecond
		}),
}

func newJobDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("loaderd_job_"+name, help, []string{"train_job"}, nil)
}

// jobRanksDesc counts the ranks of each job that read from this daemon.
var jobRanksDesc = newJobDesc("ranks", "Ranks of the job that read from this daemon; for at most 64 jobs.")

// Values of the census of all daemons, which are the same on every daemon of the run.
var (
	missingRankDesc = prometheus.NewDesc("loaderd_rank_missing_seconds",
		"Time for which a missing rank has consumed no step: it is absent, silent or stuck, and its job cannot "+
			"continue (RANK_MISSING); for at most 64 ranks.", []string{"train_job", "rank"}, nil)
	consumedStepDesc = prometheus.NewDesc("loaderd_rank_consumed_step",
		"Steps consumed by the rank's trainer; of the 64 ranks that have consumed least.",
		[]string{"train_job", "rank"}, nil)
	slowestStepDesc = newJobDesc("slowest_step",
		"Steps consumed by the slowest rank of the job; steps sent if no client of the job reports.")
	fastestStepDesc = newJobDesc("fastest_step",
		"Steps consumed by the fastest rank of the job; equal to the slowest "+
			"if the reports are too far apart in time.")
	worldSizeDesc = newJobDesc("world", "World size of the job, including absent ranks.")
)

// committedStepDesc is the step up to which each job's checkpoints reach.
var committedStepDesc = newJobDesc("committed_step", "The job's checkpoints cover all steps before this one.")

// skippedStepsDesc is the number of steps that each job has skipped.
var skippedStepsDesc = newJobDesc("skipped_steps", "Steps before the committed one that the job has skipped.")

// worldStepDesc is the first step with the world size that the ranks of a job have agreed on.
var worldStepDesc = newJobDesc("world_step", "First step with the world size that the ranks last agreed on.")

// Describe implements prometheus.Collector.
func (m rankMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, x := range perRankMetrics {
		out <- x.desc
	}
	for _, x := range []*prometheus.Desc{jobRanksDesc, committedStepDesc, skippedStepsDesc, missingRankDesc,
		consumedStepDesc, slowestStepDesc, fastestStepDesc, worldSizeDesc, worldStepDesc} {
		out <- x
	}
}

// Collect implements prometheus.Collector.
func (m rankMetrics) Collect(out chan<- prometheus.Metric) {
	view := m.ranks()
	ranks, jobs := laggingRanks(m.streams(), lagByProcess(view))
	for _, r := range ranks {
		for _, x := range perRankMetrics {
			out <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, x.value(r), r.Job, strconv.Itoa(r.Rank))
		}
	}
	for _, name := range firstN(slices.Sorted(maps.Keys(jobs)), maxShownJobs) {
		out <- prometheus.MustNewConstMetric(jobRanksDesc, prometheus.GaugeValue, float64(jobs[name]), name)
	}
	collectCensus(view, out)
	info := m.info()
	commits := info.Commits
	for _, name := range firstN(slices.Sorted(maps.Keys(commits)), maxShownJobs) {
		c := commits[name]
		out <- prometheus.MustNewConstMetric(committedStepDesc, prometheus.GaugeValue, float64(c.Step), name)
		if c.Skipped > 0 {
			out <- prometheus.MustNewConstMetric(skippedStepsDesc, prometheus.GaugeValue, float64(c.Skipped), name)
		}
	}
	for _, name := range firstN(slices.Sorted(maps.Keys(info.WorldSizes)), maxShownJobs) {
		out <- prometheus.MustNewConstMetric(worldStepDesc, prometheus.GaugeValue, float64(info.WorldSizes[name].Step), name)
	}
}

// collectCensus collects the values of the census. If a job has several world sizes, the largest one counts.
func collectCensus(view census.View, out chan<- prometheus.Metric) {
	type key struct {
		job  string
		rank int
	}
	worlds, lost, steps := map[string]census.Job{}, map[key]float64{}, map[key]uint64{}
	for _, j := range view.Jobs {
		if j.World > worlds[j.Job].World {
			worlds[j.Job] = j
		}
		if f := j.Finding; f != nil && f.Level == census.Critical {
			for _, n := range f.Ranks {
				lost[key{j.Job, n}] = max(lost[key{j.Job, n}], f.Age.Seconds())
			}
		}
		for _, r := range j.Ranks {
			k := key{j.Job, r.Rank}
			if step, known := steps[k]; r.Reports && (!known || r.ConsumedSteps() < step) {
				steps[k] = r.ConsumedSteps()
			}
		}
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, job := range firstN(slices.Sorted(maps.Keys(worlds)), maxShownJobs) {
		j := worlds[job]
		gauge(worldSizeDesc, float64(j.World), job)
		gauge(slowestStepDesc, float64(j.MinConsumed), job)
		gauge(fastestStepDesc, float64(j.MinConsumed+stepLag(&j, j.MinConsumed)), job)
	}
	byKey := func(a, b key) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.rank, b.rank)) }
	for _, k := range firstN(slices.SortedFunc(maps.Keys(lost), byKey), maxShownRanks) {
		gauge(missingRankDesc, lost[k], k.job, strconv.Itoa(k.rank))
	}
	least := func(a, b key) int { return cmp.Or(cmp.Compare(steps[a], steps[b]), byKey(a, b)) }
	for _, k := range firstN(slices.SortedFunc(maps.Keys(steps), least), maxShownRanks) {
		gauge(consumedStepDesc, float64(steps[k]), k.job, strconv.Itoa(k.rank))
	}
}

// stepLag returns by how many steps a rank's consumption lags behind its job's furthest rank. It returns 0 if the lag
// is within the uncertainty of reports from different times.
func stepLag(j *census.Job, consumed uint64) uint64 {
	if behind := j.MaxConsumed - min(j.MaxConsumed, consumed); behind > j.Slack {
		return behind
	}
	return 0
}

// lagByProcess returns the lag of every process.
func lagByProcess(v census.View) map[census.ProcessID]uint64 {
	out := map[census.ProcessID]uint64{}
	for _, j := range v.Jobs {
		for _, r := range j.Ranks {
			out[r.ProcessID] = stepLag(&j, r.ConsumedSteps())
		}
	}
	return out
}

// laggingRanks returns the ranks to show, those furthest behind first, and the number of ranks of each job on this
// daemon. If several streams read as one rank, the stream with the fewest sent steps counts.
func laggingRanks(traffic []arrowout.StreamStats,
	lags map[census.ProcessID]uint64) (ranks []laggingRank, jobs map[string]int) {
	type key struct {
		job  string
		rank int
	}
	slowest := map[key]laggingRank{}
	jobs = map[string]int{}
	for _, t := range traffic {
		k := key{t.Job, t.Rank}
		x := laggingRank{t, lags[census.ProcessID{Key: census.Key{Job: t.Job, World: t.World}, Rank: t.Rank, Peer: t.Peer}]}
		if before, known := slowest[k]; !known {
			jobs[t.Job]++
		} else {
			x.lag = max(x.lag, before.lag)
			if before.Step < t.Step {
				x.StreamStats = before.StreamStats
			}
		}
		slowest[k] = x
	}
	ranks = slices.Collect(maps.Values(slowest))
	slices.SortFunc(ranks, func(a, b laggingRank) int {
		return cmp.Or(cmp.Compare(b.lag, a.lag), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Rank, b.Rank))
	})
	return firstN(ranks, maxShownRanks), jobs
}

// firstN returns the first elements of a list, at most n.
func firstN[T any](list []T, n int) []T { return list[:min(len(list), n)] }
