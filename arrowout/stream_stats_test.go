package arrowout_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// Traffic lists each open stream in order, with its identity, position and rate. An ended stream is removed.
func TestStreamStats_ListsOpenStreams(t *testing.T) {
	f := newFake(4, 4, 16)
	f.last = nil // readers wait after the last step
	s := serve(t, f)
	if got := s.StreamStats(); len(got) > 0 {
		t.Fatalf("traffic of no streams: %v", got)
	}
	before := time.Now()
	c := dial(t, s)
	var cancel [3]context.CancelFunc
	for i, ticket := range []string{`{"rank":1,"world":2}`, `{"rank":0,"world":2,"step":2}`,
		`{"rank":0,"world":1,"job":"eval","step":3}`} {
		r, stop, err := get(t, c, ticket)
		if err != nil {
			t.Fatal(err)
		}
		cancel[i] = stop
		for n := map[int]int{0: 4, 1: 2, 2: 1}[i]; n > 0; n-- {
			if !r.Next() {
				t.Fatal(r.Err())
			}
		}
	}
	eventually(t, "all wait for step 4", func() bool {
		all := s.StreamStats()
		for _, x := range all {
			if x.Step != 4 || x.Waiting == 0 {
				return false
			}
		}
		return len(all) == 3
	})
	all := s.StreamStats()
	want := []state.RankID{{Job: "eval", Rank: 0, World: 1}, {Job: planrecord.DefaultJob, Rank: 0, World: 2},
		{Job: planrecord.DefaultJob, Rank: 1, World: 2}}
	for i, x := range all {
		if x.RankID != want[i] || x.Identity != "" || x.Address == "" || x.Since.Before(before) ||
			x.Since.After(time.Now()) ||
			x.BytesPerSecond <= 0 || x.WaitP99 < x.WaitP50 {
			t.Errorf("stream %d is %+v, want the place %v", i, x, want[i])
		}
	}
	cancel[1]()
	eventually(t, "the stream is forgotten", func() bool { return len(s.StreamStats()) == 2 })
	if got := fmt.Sprint(s.StreamStats()[0].RankID, s.StreamStats()[1].RankID); got != fmt.Sprint(want[0], want[2]) {
		t.Errorf("open streams are %s", got)
	}
}
