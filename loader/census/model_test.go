package census_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"loaderd/loader/census"
)

// Two daemons apply random operations to a census. A third daemon merges their rolls with the same result in either
// order.
func TestCensus_Model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names, now := []string{"a", "b"}, began
		daemons := []*census.Census{census.New(), census.New()}
		forth, back := census.New(), census.New()
		open := map[int]map[census.ProcessID]int{0: {}, 1: {}}
		moved := map[census.ProcessID]time.Time{}
		id := rapid.Custom(func(rt *rapid.T) census.ProcessID {
			return census.ProcessID{Key: census.Key{Job: rapid.SampledFrom([]string{"j", "k"}).Draw(rt, "job"), World: 3},
				Rank: rapid.IntRange(0, 2).Draw(rt, "rank"), Peer: rapid.IntRange(0, 1).Draw(rt, "peer")}
		})
		for range rapid.IntRange(1, 60).Draw(rt, "actions") {
			d, x := rapid.IntRange(0, 1).Draw(rt, "daemon"), id.Draw(rt, "id")
			c := daemons[d]
			switch rapid.IntRange(0, 5).Draw(rt, "action") {
			case 0:
				from := rapid.Uint64Range(0, 50).Draw(rt, "from")
				session := rapid.SampledFrom([]string{"", "s"}).Draw(rt, "session")
				c.Open(x, census.Client{Session: session, Delivered: from}, from, now)
				open[d][x]++
				delete(moved, x)
			case 1:
				c.Close(x, rapid.Bool().Draw(rt, "ended"), now)
				open[d][x] = max(0, open[d][x]-1)
			case 2:
				c.RecordSent(x, rapid.Uint64Range(0, 90).Draw(rt, "sent"), now)
			case 3, 4:
				r := census.Report{Session: "s", Delivered: rapid.Uint64Range(0, 90).Draw(rt, "taken"),
					Waiting:     rapid.Bool().Draw(rt, "waiting"),
					SinceChange: time.Duration(rapid.IntRange(0, 200).Draw(rt, "still")) * time.Second}
				if c.RecordReport(x, r, now) {
					moved[x] = now.Add(-r.SinceChange)
				}
			case 5:
				c.Leave(x.Job, now)
			}
			now = now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "ms")) * time.Millisecond)
			for _, n := range []int{0, 1} {
				forth.Merge(names[n], roll(rt, daemons[n], now), now)
				back.Merge(names[1-n], roll(rt, daemons[1-n], now), now)
			}
			v, w := forth.View(now), back.View(now)
			if !reflect.DeepEqual(v, w) {
				rt.Fatalf("merged in one order: %+v\nin the other: %+v", v, w)
			}
			for _, j := range v.Jobs {
				if open := forth.OpenStreams(j.Key, now); (open.Count > 0) != forth.HasStreams(j.Key, now) ||
					open.LastReport.After(now) || !reflect.DeepEqual(open, back.OpenStreams(j.Key, now)) {
					rt.Fatalf("open streams %+v of %+v", open, j)
				}
				if j.MinConsumed > min(j.MaxConsumed, j.MinSent) || j.Present+len(j.Missing) > j.World {
					rt.Fatalf("%+v", j)
				}
				for _, r := range j.Ranks {
					if r.ConsumedSteps() > max(r.Delivered, r.Sent) || r.Streams != open[0][r.ProcessID]+open[1][r.ProcessID] {
						rt.Fatalf("%+v with %d and %d streams", r, open[0][r.ProcessID], open[1][r.ProcessID])
					}
					at, reported := moved[r.ProcessID]
					if f := j.Finding; f != nil && f.Level == census.Critical && r.Streams > 0 && reported &&
						now.Sub(at) < 5*time.Second &&
						r.LastReport.After(now.Add(-4*time.Second)) &&
						slices.Contains(f.Ranks, r.Rank) && f.State != census.Absent && f.State != census.Left && only(j, r.Rank) {
						rt.Fatalf("a rank that moved %s ago is red: %+v", now.Sub(at), f)
					}
				}
			}
		}
	})
}

// only reports whether exactly one process reads as a rank.
func only(j census.Job, rank int) bool {
	n := 0
	for _, r := range j.Ranks {
		if r.Rank == rank {
			n++
		}
	}
	return n == 1
}

// roll returns the roll of a daemon after encoding and decoding.
func roll(rt *rapid.T, c *census.Census, now time.Time) (r census.Snapshot) {
	b, err := json.Marshal(c.Snapshot(now))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil {
		err = r.Validate(func(string) error { return nil })
	}
	if err != nil {
		rt.Fatal(err)
	}
	return r
}

func BenchmarkCensus_1024Ranks(b *testing.B) {
	c, now := census.New(), began
	id := func(n int) census.ProcessID {
		return census.ProcessID{Key: census.Key{Job: "pretrain", World: 1024}, Rank: n}
	}
	for n := range 1024 {
		c.Open(id(n), census.Client{Session: "s"}, 0, now)
	}
	b.Run("report", func(b *testing.B) {
		for i := range b.N {
			c.RecordReport(id(i%1024), census.Report{Session: "s", Delivered: uint64(i)}, now)
		}
	})
	b.Run("roll", func(b *testing.B) {
		for range b.N {
			r := c.Snapshot(now)
			out, _ := json.Marshal(r)
			b.SetBytes(int64(len(out)))
		}
	})
	b.Run("view", func(b *testing.B) {
		for range b.N {
			c.View(now)
		}
	})
}
