package status

import (
	"cmp"
	"slices"
	"time"

	"loaderd/internal/api"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// processKey identifies the streams of a process.
type processKey struct {
	job               string
	rank, world, peer int
}

func processKeyOf(r api.RankStatus) processKey { return processKey{r.Job, r.Rank, r.World, r.Peer} }

// mergeByProcess merges the streams of each process.
func mergeByProcess(streams []api.RankStatus) map[processKey]api.RankStatus {
	out := map[processKey]api.RankStatus{}
	for _, s := range streams {
		if before, known := out[processKeyOf(s)]; known {
			s.Bytes += before.Bytes
		}
		out[processKeyOf(s)] = s
	}
	return out
}

// rankStatuses describes the processes of the census, with the throughput of their streams. A missing rank has an entry
// as long as its job misses it. Steps are limited to planned, because another daemon's plan may be ahead of this
// daemon's.
func rankStatuses(v census.View, streams []api.RankStatus, planned uint64, own string) (out []api.RankStatus) {
	open := mergeByProcess(streams)
	for _, j := range v.Jobs {
		most, known := min(j.MaxConsumed, planned), map[int]bool{}
		for _, r := range j.Ranks {
			known[r.Rank] = true
			if r.State == census.Ended || r.State == census.Left && (j.Finding == nil || j.Finding.State != census.Left) {
				continue
			}
			var x api.RankStatus
			if r.Streams > 0 {
				x = open[processKey{j.Job, r.Rank, j.World, r.Peer}]
			}
			x.Job, x.Rank, x.World, x.Peer, x.Streams, x.Unit = j.Job, r.Rank, j.World, r.Peer, r.Streams, api.UnitSent
			x.Address, x.Daemon = cmp.Or(x.Address, r.Address), cmp.Or(x.Daemon, r.Daemon, own)
			x.State, x.StateSeconds = string(r.State), r.StateAge.Seconds()
			x.Sent, x.Consumed = min(r.Sent, planned), min(r.ConsumedSteps(), planned)
			if r.Reports {
				x.Unit, x.Buffered = api.UnitRead, x.Sent-min(x.Sent, r.Delivered)
			}
			if x.Lag = most - min(most, x.Consumed); x.Lag <= j.Slack {
				x.Lag = 0 // within the uncertainty of reports from different times
			}
			out = append(out, x)
		}
		for _, n := range j.Missing {
			if least := min(j.MinConsumed, planned); !known[n] {
				out = append(out, api.RankStatus{Job: j.Job, Rank: n, World: j.World, State: string(census.Absent),
					Unit: api.UnitRead, Consumed: least, Sent: least, Lag: most - least})
			}
		}
	}
	return out
}

// jobStatuses describes the jobs of a run.
func jobStatuses(v census.View, planned uint64, worlds planrecord.WorldSizes) []api.JobStatus {
	out := []api.JobStatus{}
	for _, j := range v.Jobs {
		x := api.JobStatus{Job: j.Job, World: j.World, Present: j.Present, Missing: j.Missing,
			MinConsumed: min(j.MinConsumed, planned),
			MaxConsumed: min(j.MaxConsumed, planned), Sent: min(j.MinSent, planned),
			ReportsConsumption: j.Reports, State: api.StateReading}
		if size, known := worlds[j.Job]; known && size.Ranks == j.World {
			x.SinceStep = &size.Step
		}
		if j.Finding != nil {
			x.State, x.Failing, x.Sentence = string(j.Finding.State), j.Finding.Level == census.Critical,
				diagnosis.RankCause(j.Finding).Message
		}
		out = append(out, x)
	}
	return out
}

// resizeStatuses describes the changes of world sizes that wait for ranks.
func resizeStatuses(pending []state.PendingResize, now time.Time) (out []api.ResizeStatus) {
	for _, p := range pending {
		out = append(out, api.ResizeStatus{PendingResize: p, Sentence: diagnosis.DescribeResize(p, now)})
	}
	return out
}

// jobProgress returns the number of steps that all ranks of a job were sent, and the number that all have consumed. Of
// several jobs the furthest one counts; if no job is present, the last ones count. Both are nil before the first
// rank.
func jobProgress(v census.View, planned uint64) (sent, consumed *uint64) {
	include := func(s, c uint64) {
		if s, c = min(s, planned), min(c, planned); consumed == nil || c > *consumed {
			sent, consumed = &s, &c
		}
	}
	for _, j := range v.Jobs {
		include(j.MinSent, j.MinConsumed)
	}
	if len(v.Jobs) > 0 {
		return sent, consumed
	}
	for _, j := range v.GoneJobs {
		least := func(of func(census.Rank) uint64) uint64 {
			return of(slices.MinFunc(j.Ranks, func(a, b census.Rank) int { return cmp.Compare(of(a), of(b)) }))
		}
		if len(j.Ranks) > 0 {
			include(least(func(r census.Rank) uint64 {
				return r.Sent
			}), least(func(r census.Rank) uint64 { return r.ConsumedSteps() }))
		}
	}
	return sent, consumed
}

// furthestBehind returns at most api.MaxRanks ranks, sorted by job, world and rank. It selects first the ranks that
// do not read, then those furthest behind.
func furthestBehind(ranks []api.RankStatus) []api.RankStatus {
	ranks = append([]api.RankStatus{}, ranks...)
	if len(ranks) > api.MaxRanks {
		slices.SortFunc(ranks, func(a, b api.RankStatus) int {
			return cmp.Or(boolToInt(isReading(a))-boolToInt(isReading(b)), cmp.Compare(a.Consumed, b.Consumed),
				cmp.Compare(a.Sent, b.Sent))
		})
		ranks = ranks[:api.MaxRanks]
	}
	slices.SortFunc(ranks, func(a, b api.RankStatus) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank),
			cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Daemon, b.Daemon))
	})
	return ranks
}

func isReading(r api.RankStatus) bool { return r.State == "" || r.State == api.StateReading }

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
