package census_test

import (
	"testing"
	"time"

	"loaderd/loader/census"
)

// A rank whose client no longer reports does not block the others while the job consumes steps. It is named, and the
// job does not fail.
func TestCensus_IdleRankOfRunningJob(t *testing.T) {
	j := newJob(t, "pretrain", 2, 2)
	j.train(10)
	j.ranks[1].alive = false
	var last *census.Finding
	for range 60 {
		j.step()
		j.second()
		if last = j.c.View(j.now).Jobs[0].Finding; last != nil && last.Level == census.Critical {
			t.Fatal(say(last))
		}
	}
	if last == nil || last.State != census.Silent || last.Ranks[0] != 1 {
		t.Errorf("%+v", last)
	}
}

// Of two simultaneous faults the one that explains the other is reported: an absent rank before a silent one.
func TestCensus_AbsentRankBeforeIdleRank(t *testing.T) {
	j := newJob(t, "pretrain", 3, 3)
	j.train(10)
	j.ranks[1].alive, j.ranks[2].alive = false, false
	j.close(j.ranks[2])
	j.lockStep()
	j.seconds(30)
	if v := j.c.View(j.now); v.Jobs[0].Finding == nil || say(v.Jobs[0].Finding) != "red absent [2] of 3 of pretrain at 9" {
		t.Errorf("%+v", v.Jobs[0].Finding)
	}
}

// For a restarted job, former processes are not reported as missing before they have had time to connect.
func TestCensus_JobRestarts(t *testing.T) {
	j := newJob(t, "pretrain", 2, 2)
	j.train(10)
	for _, r := range j.ranks {
		r.alive = false
		j.close(r)
	}
	j.seconds(60)
	j.first, j.fault, j.ranks = map[string]int{}, j.now, nil
	j.open(0).session = "again"
	j.c.Open(j.ranks[0].id, census.Client{Session: "again"}, 0, j.now)
	j.second()
	j.found(nil)
	if v := j.c.View(j.now); len(v.Jobs) != 1 || len(v.Jobs[0].Ranks) != 1 || v.Jobs[0].MinConsumed != 0 {
		t.Errorf("%+v", v.Jobs)
	}
}

// A restarted daemon sends a roll without the processes that it served before: they have no stream.
func TestCensus_RollWithoutEarlierProcesses(t *testing.T) {
	a, b := census.New(), census.New()
	id := func(n int) census.ProcessID {
		return census.ProcessID{Key: census.Key{Job: "pretrain", World: 2}, Rank: n}
	}
	a.Open(id(0), census.Client{Session: "0"}, 0, began)
	b.Open(id(1), census.Client{}, 0, began)
	streams := func(r census.Snapshot) int {
		a.Merge("b", r, began)
		for _, x := range a.View(began).Jobs[0].Ranks {
			if x.Rank == 1 {
				return x.Streams
			}
		}
		return -1
	}
	if n := streams(b.Snapshot(began)); n != 1 {
		t.Fatalf("%d streams", n)
	}
	if n := streams(census.Snapshot{}); n != 0 {
		t.Errorf("%d streams of a process that no daemon serves", n)
	}
}

// The report of another client has no effect.
func TestCensus_IgnoresReportOfAnotherSession(t *testing.T) {
	c, id := census.New(), census.ProcessID{Key: census.Key{Job: "pretrain", World: 1}}
	c.Open(id, census.Client{Session: "s"}, 0, began)
	c.RecordReport(id, census.Report{Session: "s", Delivered: 3}, began)
	if c.RecordReport(id, census.Report{Session: "t", Delivered: 9}, began) {
		t.Error("the report of another session is taken in")
	}
	if r := c.View(began).Jobs[0].Ranks[0]; r.Delivered != 3 {
		t.Errorf("%+v", r)
	}
}

// If a daemon could not list all of its processes, no rank counts as never connected.
func TestCensus_PartialRoll(t *testing.T) {
	j := newJob(t, "pretrain", 4, 3)
	for range 60 {
		j.step()
		j.c.Merge("b", census.Snapshot{Partial: true}, j.now.Add(time.Second))
		j.second()
	}
	j.found(nil)
}
