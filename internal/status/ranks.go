package status

import (
	"cmp"

	"loaderd/arrowout/answers"
	"loaderd/internal/order"
	"loaderd/loader"
	"loaderd/loader/census"
)

// place identifies the streams of a process.
type place struct {
	job               string
	rank, world, peer int
}

func placeOf(r answers.RankStatus) place { return place{r.Job, r.Rank, r.World, r.Peer} }

// ranksOf describes the processes of all jobs, by the run's census and what their streams get. A rank that is missing has a row, as long as its job
// misses it.
func ranksOf(v census.View, streams []answers.RankStatus, own string) []answers.RankStatus {
	open := map[place]answers.RankStatus{}
	for _, s := range streams {
		if before, several := open[placeOf(s)]; several {
			s.Bytes += before.Bytes
			s.Step = min(s.Step, before.Step)
		}
		open[placeOf(s)] = s
	}
	var out []answers.RankStatus
	add := func(j census.Job, r census.Rank) {
		key := place{j.Job, r.Rank, j.World, r.Peer}
		x, reads := open[key]
		if !reads {
			if r.State == census.Ended || r.State == census.Left && (j.Finding == nil || j.Finding.State != census.Left) {
				return
			}
			x = answers.RankStatus{Job: j.Job, Rank: r.Rank, World: j.World, Peer: r.Peer, Step: r.Sent, Address: r.Address, Daemon: cmp.Or(r.Daemon, own)}
		}
		delete(open, key)
		x.State, x.StateFor, x.Streams, x.Unit = string(r.State), r.For.Seconds(), r.Streams, answers.UnitSent
		x.Consumed = r.Consumed()
		if r.Reports {
			x.Unit, x.Buffered = answers.UnitRead, r.Sent-min(r.Sent, r.Taken)
		}
		if x.Lag = j.Most - min(j.Most, x.Consumed); x.Lag <= j.Slack {
			x.Lag = 0 // reports are of different moments
		}
		out = append(out, x)
	}
	for _, j := range v.Jobs {
		known := map[int]bool{}
		for _, r := range j.Ranks {
			known[r.Rank] = true
			add(j, r)
		}
		for _, n := range j.Missing {
			if !known[n] {
				out = append(out, answers.RankStatus{Job: j.Job, Rank: n, World: j.World, State: string(census.Absent), Unit: answers.UnitRead, Consumed: j.Least, Step: j.Least, Lag: j.Most - j.Least})
			}
		}
	}
	for _, s := range streams { // opened since the census was taken
		if x, reads := open[placeOf(s)]; reads {
			delete(open, placeOf(s))
			x.State, x.Unit, x.Consumed, x.Streams = answers.StateReading, answers.UnitSent, x.Step, 1
			out = append(out, x)
		}
	}
	return out
}

// jobsOf describes the jobs of a run.
func jobsOf(v census.View) []answers.JobStatus {
	out := []answers.JobStatus{}
	for _, j := range v.Jobs {
		x := answers.JobStatus{Job: j.Job, World: j.World, Present: j.Present, Missing: j.Missing, Least: j.Least, Most: j.Most, Reports: j.Reports, State: answers.StateReading}
		if j.Finding != nil {
			x.State, x.Failing, x.Sentence = string(j.Finding.State), j.Finding.Level == census.Red, loader.RankCause(j.Finding).Message
		}
		out = append(out, x)
	}
	return out
}

// furthestBehind are the ranks that are shown, by job, world and rank: first those that do not read.
func furthestBehind(ranks []answers.RankStatus) []answers.RankStatus {
	ranks = append([]answers.RankStatus{}, ranks...)
	if len(ranks) > answers.MaxRanks {
		order.Sort(ranks, func(a, b answers.RankStatus) int {
			return cmp.Or(boolean(reads(a))-boolean(reads(b)), cmp.Compare(a.Step, b.Step))
		})
		ranks = ranks[:answers.MaxRanks]
	}
	order.Sort(ranks, func(a, b answers.RankStatus) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Daemon, b.Daemon))
	})
	return ranks
}

func reads(r answers.RankStatus) bool { return r.State == "" || r.State == answers.StateReading }

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// leastStep is how many steps the rank has consumed that is furthest behind in the job that is furthest on; 0 without ranks.
func leastStep(v census.View) (step uint64) {
	for _, j := range v.Jobs {
		step = max(step, j.Least)
	}
	return step
}
