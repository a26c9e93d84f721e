package rendezvous_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/internal/rendezvous"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

var start = time.Unix(1e9, 0)

// from returns the request of a process, whose session is its name.
func from(session string, rank, world int, step uint64) state.ResizeRequest {
	return state.ResizeRequest{RankID: state.RankID{Job: "j", Rank: rank, World: world}, Session: session, Step: step}
}

// join makes a request that must be accepted, and returns whether its job has agreed, and its missing ranks.
func join(t *testing.T, r *rendezvous.Rendezvous, q state.ResizeRequest, now time.Time) (agreed bool, missing []int) {
	t.Helper()
	result, recorded, err := r.Join(q, now)
	if err != nil {
		t.Fatal(err)
	}
	if result.Agreed && !recorded {
		r.Agree(q.Job, now)
	}
	return result.Agreed, result.Missing
}

// refused checks the error of a request.
func refused(t *testing.T, r *rendezvous.Rendezvous, q state.ResizeRequest, now time.Time, want string) {
	t.Helper()
	_, _, err := r.Join(q, now)
	var typed *fault.Error
	if !errors.As(err, &typed) || typed.Reason != fault.WorldConflict || !strings.Contains(typed.Message, want) {
		t.Errorf("%+v: %v, want WORLD_CONFLICT with %q", q, err, want)
	}
}

func TestRendezvous_AgreesOnceAllRanksHaveJoined(t *testing.T) {
	var r rendezvous.Rendezvous
	for rank, want := range [][]int{{1, 2}, {2}, nil} {
		q := from(strconv.Itoa(rank), rank, 3, 7)
		agreed, missing := join(t, &r, q, start)
		if agreed != (rank == 2) || !slices.Equal(missing, want) {
			t.Errorf("rank %d: agreed %v, missing %v", rank, agreed, missing)
		}
	}
	for rank := range 3 { // each repeats its request until it has the result, even if that is lost
		if agreed, _ := join(t, &r, from(strconv.Itoa(rank), rank, 3, 7), start.Add(4*time.Second)); !agreed {
			t.Errorf("rank %d did not get the agreement", rank)
		}
	}
}

func TestRendezvous_Conflicts(t *testing.T) {
	skips := from("b", 1, 2, 7)
	skips.Skips = "[[3,5]]"
	for name, c := range map[string]struct {
		q    state.ResizeRequest
		want string
	}{
		"step": {from("b", 1, 2, 8),
			"rank 1 of 2 of job \"j\" cannot read from step 8: rank 0 requested 2 ranks from step 7"},
		"world size": {from("b", 1, 4, 7), "rank 0 requested 2 ranks from step 7"},
		"rank":       {from("b", 0, 2, 7), "another process requested to be rank 0"},
		"skips":      {skips, "it skips the steps [[3,5]], and rank 0 requested 2 ranks from step 7 skipping the steps []"},
	} {
		t.Run(name, func(t *testing.T) {
			var r rendezvous.Rendezvous
			join(t, &r, from("a", 0, 2, 7), start)
			refused(t, &r, c.q, start, c.want)
			result, _, err := r.Join(from("a", 0, 2, 7), start)
			if err != nil || result.Agreed || !strings.Contains(result.Refused, c.want) {
				t.Errorf("the waiting rank got %+v, %v", result, err)
			}
			if agreed, _ := join(t, &r, from("b", 1, 2, 7), start); !agreed {
				t.Error("the corrected request was not accepted")
			}
		})
	}
}

func TestRendezvous_RequestEndsUnlessItIsRepeated(t *testing.T) {
	for name, end := range map[string]func(r *rendezvous.Rendezvous) time.Duration{
		"withdrawn": func(r *rendezvous.Rendezvous) time.Duration {
			r.Withdraw(from("a", 0, 2, 7))
			return 0
		},
		"not repeated": func(*rendezvous.Rendezvous) time.Duration { return 5 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			var r rendezvous.Rendezvous
			join(t, &r, from("a", 0, 2, 7), start)
			now := start.Add(end(&r))
			if agreed, _ := join(t, &r, from("b", 0, 1, 9), now); !agreed {
				t.Error("the former request is still in effect")
			}
		})
	}
	var r rendezvous.Rendezvous
	join(t, &r, from("a", 0, 2, 7), start)
	join(t, &r, from("a", 0, 2, 7), start.Add(4*time.Second))
	refused(t, &r, from("b", 0, 1, 9), start.Add(8*time.Second), "step 7")
}

// TestRendezvous_ReturnedProcessDoesNotJoinAPastAgreement checks a process that was killed and returns at the step of
// the last agreement, while the others are ahead.
func TestRendezvous_ReturnedProcessDoesNotJoinAPastAgreement(t *testing.T) {
	var r rendezvous.Rendezvous
	join(t, &r, from("a", 0, 2, 7), start)
	join(t, &r, from("b", 1, 2, 7), start)
	late := from("peer", 1, 2, 7)
	late.Peer = 1
	if agreed, _ := join(t, &r, late, start.Add(time.Second)); !agreed {
		t.Error("another process of a rank that has agreed was not accepted")
	}
	if agreed, missing := join(t, &r, from("returned", 1, 2, 7), start.Add(time.Second)); agreed || missing[0] != 0 {
		t.Errorf("agreed %v, missing %v", agreed, missing)
	}
}

// TestRendezvous_LaterCallForTheSameWorldSize lets two ranks agree, replaces one process, and lets them agree again on
// the same step and world size.
func TestRendezvous_LaterCallForTheSameWorldSize(t *testing.T) {
	call := func(id string) state.ResizeRequest {
		q := from("a", 0, 2, 7)
		q.Request = id
		return q
	}
	var r rendezvous.Rendezvous
	join(t, &r, call("first"), start)
	join(t, &r, from("b", 1, 2, 7), start)
	if agreed, _ := join(t, &r, call("first"), start); !agreed {
		t.Error("the repeated request did not get the agreement")
	}
	if agreed, missing := join(t, &r, call("second"), start); agreed || !slices.Equal(missing, []int{1}) {
		t.Errorf("the later call: agreed %v, missing %v", agreed, missing)
	}
	if agreed, _ := join(t, &r, from("c", 1, 2, 7), start); !agreed {
		t.Error("not agreed, although both have called again")
	}
}

func TestRendezvous_WithdrawnTooLate(t *testing.T) {
	var r rendezvous.Rendezvous
	other := from("a", 0, 2, 7)
	other.Request = "other"
	for _, q := range []state.ResizeRequest{from("x", 0, 2, 7), from("a", 1, 2, 7), from("a", 0, 2, 8), other} {
		join(t, &r, from("a", 0, 2, 7), start)
		join(t, &r, from("b", 1, 2, 7), start)
		if r.Withdraw(q) {
			t.Errorf("%+v is part of the agreement", q)
		}
	}
	if !r.Withdraw(from("a", 0, 2, 7)) {
		t.Error("the withdrawal does not report the agreement")
	}
}

// TestRendezvous_Restored lets a leader begin after an agreement whose answer only one of two ranks has received.
func TestRendezvous_Restored(t *testing.T) {
	sizes := planrecord.WorldSizes{"j": {Step: 7, Ranks: 2}}
	restored := func(after time.Duration) *rendezvous.Rendezvous {
		var r rendezvous.Rendezvous
		r.Restore(sizes, start, start.Add(after))
		return &r
	}
	skips := from("b", 1, 2, 7)
	skips.Skips = "[[7,9]]"
	now := start.Add(2 * time.Second)
	r := restored(2 * time.Second)
	if agreed, _ := join(t, r, skips, now); !agreed {
		t.Error("the repeated request did not get the agreement")
	}
	for name, q := range map[string]state.ResizeRequest{"skips": from("a", 0, 2, 7), "rank": from("a", 1, 2, 7),
		"step": from("a", 0, 2, 8), "world size": from("a", 0, 4, 7)} {
		r := restored(2 * time.Second)
		join(t, r, skips, now)
		if agreed, _ := join(t, r, q, now); agreed {
			t.Errorf("another %s: agreed", name)
		}
	}
	if agreed, _ := join(t, restored(time.Minute), skips, start.Add(time.Minute)); agreed {
		t.Error("agreed long after the leader began")
	}
	for after, ok := range map[time.Duration]bool{2 * time.Second: false, rendezvous.SettleTime: true} {
		if err := restored(after).CheckRestart(from("c", 0, 4, 3), start.Add(after)); (err == nil) != ok {
			t.Errorf("restart %s after the leader began: %v", after, err)
		}
	}
}

func TestRendezvous_ClientThatChangesItsRequest(t *testing.T) {
	var r rendezvous.Rendezvous
	join(t, &r, from("a", 0, 3, 7), start)
	join(t, &r, from("b", 1, 3, 7), start)
	refused(t, &r, from("a", 0, 2, 7), start, "rank 1 requested 3 ranks") // b still waits for 3 ranks
	join(t, &r, from("b", 1, 2, 7), start)
	if agreed, _ := join(t, &r, from("a", 0, 2, 7), start); !agreed {
		t.Error("both request 2 ranks")
	}
}

func TestRendezvous_RestartWaitsForAnAgreement(t *testing.T) {
	var r rendezvous.Rendezvous
	restart := from("c", 0, 4, 3)
	if err := r.CheckRestart(restart, start); err != nil {
		t.Error(err)
	}
	join(t, &r, from("a", 0, 1, 7), start)
	for after, ok := range map[time.Duration]bool{0: false, rendezvous.SettleTime: true} {
		if err := r.CheckRestart(restart, start.Add(after)); (err == nil) != ok {
			t.Errorf("%s after the agreement: %v", after, err)
		}
	}
}

// TestRendezvous_Property makes random requests. All ranks of an agreement have the same step and world size, each rank
// was requested by one session, and no process takes part in two agreements by one request.
func TestRendezvous_Property(t *testing.T) {
	for seed := range uint64(200) {
		rng, r, now := rand.New(rand.NewPCG(seed, 0)), rendezvous.Rendezvous{}, start
		last := map[string]state.ResizeRequest{} // accepted requests that are not withdrawn or outdated
		seen := map[string]time.Time{}
		for range 60 {
			now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			world := 1 + rng.IntN(3)
			q := from(strconv.Itoa(rng.IntN(4)), rng.IntN(world), world, uint64(rng.IntN(2)))
			if rng.IntN(5) == 0 {
				r.Withdraw(q)
				delete(last, q.Session)
				continue
			}
			result, recorded, err := r.Join(q, now)
			if delete(last, q.Session); err != nil {
				continue
			}
			last[q.Session], seen[q.Session] = q, now
			if !result.Agreed || recorded {
				continue
			}
			r.Agree(q.Job, now)
			ranks := map[int]bool{}
			for session, x := range last {
				if now.Sub(seen[session]) < 5*time.Second && x.WorldSize() == q.WorldSize() {
					ranks[x.Rank] = true
				}
			}
			if len(ranks) != q.World {
				t.Fatalf("seed %d: agreed on %+v with the ranks %v", seed, q.WorldSize(), ranks)
			}
			clear(last)
		}
	}
}

// A change is pending from the first request until all ranks agree, or until no rank repeats its request.
func TestRendezvous_Pending(t *testing.T) {
	var r rendezvous.Rendezvous
	check := func(now time.Time, want ...state.PendingResize) {
		t.Helper()
		if got := r.Pending(now); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	check(start)
	r.Restore(planrecord.WorldSizes{"former": {Step: 1, Ranks: 2}}, start, start)
	join(t, &r, from("1", 1, 3, 7), start)
	join(t, &r, from("1", 1, 3, 7), start.Add(3*time.Second))
	join(t, &r, from("2", 2, 3, 7), start.Add(4*time.Second))
	p := state.PendingResize{Job: "j", World: 3, Step: 7, Since: start, Joined: []int{1, 2}, JoinedCount: 2,
		Missing: []int{0}, MissingCount: 1}
	check(start.Add(6*time.Second), p)
	p.Joined, p.JoinedCount, p.Missing, p.MissingCount = []int{2}, 1, []int{0, 1}, 2
	check(start.Add(8*time.Second), p)
	check(start.Add(9 * time.Second))
	for i := range 20 {
		q := from(strconv.Itoa(i), i, 40, 7)
		q.Job = string(rune('a' + i))
		join(t, &r, q, start.Add(time.Minute))
	}
	all := r.Pending(start.Add(time.Minute))
	if len(all) != 16 || all[2].Job != "c" || !slices.Equal(all[2].Missing, []int{0, 1, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("%+v", all)
	}
	r.Agree("c", start.Add(time.Minute))
	if all = r.Pending(start.Add(time.Minute)); len(all) != 16 || all[2].Job != "d" {
		t.Errorf("after the agreement: %+v", all)
	}
}
