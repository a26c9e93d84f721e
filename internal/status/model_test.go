package status_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"loaderd/internal/api"
	"loaderd/internal/status"
	"loaderd/internal/statustest"
	"loaderd/loader"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
)

// TestStatus_ValuesAreConsistent checks that the values of a status are consistent for any reports of clients,
// streams, heartbeats of other daemons, and plan.
func TestStatus_ValuesAreConsistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { rapid.Check(bubble{t}, randomStatus) })
}

// bubble hides the deadline of a test, which synctest does not permit.
type bubble struct{ *testing.T }

func randomStatus(rt *rapid.T) {
	steps := rapid.Uint64Range(0, 40)
	run := &fakeRun{info: loader.Info{Run: "r"}, ranks: census.New(), verdict: diagnosis.Verdict{Health: diagnosis.Running,
		Sentence: "Running"}}
	other, words := census.New(), &bus{}
	var streams []api.RankStatus
	served := func() []api.RankStatus {
		run.mu.Lock()
		defer run.mu.Unlock()
		return streams
	}
	w := status.New(status.Options{Run: run, LocalStreams: served, Bus: words, Events: status.NewEvents("a"),
		Log: slog.New(slog.DiscardHandler), Name: "a",
		Plan: &fakePlan{}, Flight: func() string { return "" }, Bounds: status.Bounds{Window: 4, Ahead: 6, BufferBytes: 100}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Serve(ctx) }()
	defer func() { cancel(); <-ended }()
	synctest.Wait()
	id := func() census.ProcessID {
		world := rapid.SampledFrom([]int{1, 2, 4}).Draw(rt, "world")
		return census.ProcessID{Key: census.Key{Job: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "job"), World: world},
			Rank: rapid.IntRange(0, world-1).Draw(rt, "rank"), Peer: rapid.IntRange(0, 1).Draw(rt, "peer")}
	}
	rankOf := func(x census.ProcessID) api.RankStatus {
		return api.RankStatus{Job: x.Job, Rank: x.Rank, World: x.World, Peer: x.Peer, Sent: steps.Draw(rt, "sent"), Bytes: 10,
			WaitP50: 1, WaitP99: 2}
	}
	session := rapid.SampledFrom([]string{"", "s", "t"})
	ranks := func(do func(*rapid.T, *census.Census)) func(*rapid.T) {
		return func(rt *rapid.T) { run.change(func(c *census.Census) { do(rt, c) }) }
	}
	either := func(do func(*rapid.T, *census.Census)) func(*rapid.T) {
		return ranks(func(rt *rapid.T, own *census.Census) {
			if rapid.Bool().Draw(rt, "of another daemon") {
				own = other
			}
			do(rt, own)
		})
	}
	rt.Repeat(map[string]func(*rapid.T){
		"open": either(func(rt *rapid.T, c *census.Census) {
			from := steps.Draw(rt, "from")
			c.Open(id(), census.Client{Session: session.Draw(rt, "session"),
				Delivered: rapid.Uint64Range(0, from).Draw(rt, "taken")}, from, time.Now())
		}),
		"send":  ranks(func(rt *rapid.T, c *census.Census) { c.RecordSent(id(), steps.Draw(rt, "steps"), time.Now()) }),
		"close": either(func(rt *rapid.T, c *census.Census) { c.Close(id(), rapid.Bool().Draw(rt, "ended"), time.Now()) }),
		"leave": ranks(func(_ *rapid.T, c *census.Census) { c.Leave("a", time.Now()) }),
		"report": either(func(rt *rapid.T, c *census.Census) {
			c.RecordReport(id(), census.Report{Session: session.Draw(rt, "session"), Delivered: steps.Draw(rt, "taken"),
				Waiting: rapid.Bool().Draw(rt, "waiting"), Left: rapid.Bool().Draw(rt, "left")}, time.Now())
		}),
		"roll": ranks(func(_ *rapid.T, c *census.Census) { c.Merge("b", other.Snapshot(time.Now()), time.Now()) }),
		"streams": ranks(func(rt *rapid.T, _ *census.Census) {
			streams = nil
			for range rapid.IntRange(0, 3).Draw(rt, "streams") {
				streams = append(streams, rankOf(id()))
			}
		}),
		"word": func(rt *rapid.T) {
			x, err := json.Marshal(rankOf(id()))
			if err != nil {
				rt.Fatal(err)
			}
			_ = words.Publish(fmt.Appendf(nil, `{"name":"b","readers":1,"sent":5,"reading":[%s]}`, x))
		},
		"plan": ranks(func(rt *rapid.T, _ *census.Census) {
			run.stats.Planned = steps.Draw(rt, "planned")
			run.stats.FirstUnrequested, run.stats.Committed = steps.Draw(rt, "wanted"),
				rapid.Uint64Range(0, run.stats.Planned).Draw(rt,
					"committed")
		}),
		"wait": func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 20).Draw(rt, "seconds")) * time.Second) },
		"": func(rt *rapid.T) {
			time.Sleep(time.Second)
			s := w.Status()
			for _, wrong := range statustest.Contradictions(&s) {
				rt.Fatal(wrong)
			}
			for _, v := range w.History().Times.Waiting {
				if v != nil && (*v < 0 || *v > 1) {
					rt.Fatalf("a rank waited for %v of the time", *v)
				}
			}
		},
	})
}
