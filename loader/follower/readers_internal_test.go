package follower

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/state"
)

// The demand equals one computed from all readers, for any order in which readers join, move and leave.
func TestReaders_DemandMatchesAllReaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newReaders()
		all := map[*Reader]bool{}
		told := state.NewDemand()
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			job := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "job"))
			var mine []*Reader
			for _, r := range s.all() {
				if r.place.Job == job {
					mine = append(mine, r)
				}
			}
			switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
			case act == 0 && len(mine) > 0:
				r := rapid.SampledFrom(mine).Draw(t, "reader")
				s.remove(r)
				s.remove(r) // no effect
				delete(all, r)
				told = s.demand()
			case act < 4 || len(mine) == 0:
				step := rapid.Uint64Range(0, 20).Draw(t, "step")
				r := &Reader{place: state.RankID{Job: job, Rank: rapid.IntRange(0, 99).Draw(t, "rank"), World: 100}, next: step,
					neededStep: step}
				s.add(r)
				all[r] = true
				told = s.demand()
			default:
				r := rapid.SampledFrom(mine).Draw(t, "reader")
				next := r.next + uint64(rapid.IntRange(0, 1).Draw(t, "step"))
				s.move(r, next, rapid.SampledFrom([]uint64{r.neededStep, r.next}).Draw(t, "reads"))
				if s.matchesDemand(told, job) && !reflect.DeepEqual(told, s.demand()) {
					t.Fatalf("the leader did not receive %+v and holds %+v", s.demand(), told)
				}
				told = s.demand()
			}
			want := state.NewDemand()
			for r := range all {
				if x, ok := want.Jobs[r.place.Job]; !ok || r.next < x.Step || r.next == x.Step && r.place.Rank < x.Rank {
					want.Jobs[r.place.Job] = state.JobDemand{Rank: r.place.Rank, World: r.place.World, Step: r.next}
				}
				want.Needed, want.Furthest = min(want.Needed, r.neededStep), max(want.Furthest, r.next)
			}
			if have := s.demand(); !reflect.DeepEqual(have, want) || len(s.all()) != len(all) {
				t.Fatalf("demand %+v of %d readers, want %+v of %d", have, len(s.all()), want, len(all))
			}
		}
	})
}
