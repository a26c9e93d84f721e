package loader_test

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// changesDecided counts the changes of the mixture in a plan, by the number of steps after which they were decided.
func changesDecided(t *testing.T, l *memLog) map[uint64]int {
	t.Helper()
	out := map[uint64]int{}
	must(t, l.Scan(t.Context(), 1, func(_ uint64, b []byte) error {
		e, err := planrecord.Decode(b)
		if m, is := e.(planrecord.Mix); is && m.DecidedStep != nil {
			out[*m.DecidedStep]++
		}
		return err
	}))
	return out
}

func codeAndWeb(code float64) mixture.Change {
	return mixture.Change{Weights: map[string]float64{"code": code, "web": 1 - code}}
}

func mixedCodeAndWeb(documents int) (*fixture, shelf) {
	c := config("bfd")
	c.Sources = sources(map[string]float64{"code": 1, "web": 1})
	w, s := mixed(c, "code", "web")
	w.options.Ahead = 2
	for _, docs := range s {
		docs.lengths(someLengths(8, documents)...)
	}
	return w, s
}

// A resumed trainer repeats its earlier requests, here with other weights, to the same daemon and to a restarted one.
// Each response states the change in the plan and its step, and the plan stays the same. A request that was not made
// before is recorded, even if a later decision is in the plan.
func TestMixIdempotent_RepeatedRequestsChangeOnce(t *testing.T) {
	w, s := mixedCodeAndWeb(900)
	run, stop := w.start(t)
	begin, err := changeOnce(t, run, codeAndWeb(0.5), 0, "")
	must(t, err)
	if begin.Step > 2 || begin.Duplicate { // steps planned ahead so far
		t.Errorf("before the first step: %+v", begin)
	}
	var want []*assembly.Batch
	made := map[uint64]state.MixResult{0: begin}
	for _, decided := range []uint64{4, 8, 12} {
		want = append(want, read(t, run, state.RankID{World: 1}, decided-4, 4)...)
		if decided == 8 {
			continue // the trainer was killed before its request
		}
		made[decided], err = changeOnce(t, run, codeAndWeb(float64(decided)/16), decided, "alice")
		must(t, err)
		if x := made[decided]; x.Duplicate || x.Step < decided || x.Weights["code"] != float64(decided)/16 {
			t.Errorf("decided behind %d steps: %+v", decided, x)
		}
	}
	asked := func() {
		for decided, x := range made {
			x.Duplicate = true
			if got, err := changeOnce(t, run, codeAndWeb(0.99), decided, "bob"); err != nil || !reflect.DeepEqual(got, x) {
				t.Errorf("decided again behind %d steps: %+v, %v, want %+v", decided, got, err, x)
			}
		}
	}
	asked()
	must(t, stop())
	run, stop = w.start(t)
	asked()
	late, err := changeOnce(t, run, codeAndWeb(0.5), 8, "alice")
	must(t, err)
	if late.Duplicate || late.Step < made[12].Step {
		t.Errorf("decided late: %+v", late)
	}
	made[8] = late
	if _, err := changeOnce(t, run, codeAndWeb(0.1), 1000, ""); reason(err) != fault.InvalidTicket {
		t.Errorf("a change for steps that nobody has seen: %v", err)
	}
	if _, err := changeOnce(t, run, codeAndWeb(-1), 12, ""); reason(err) != fault.InvalidTicket {
		t.Errorf("weights that no mixture can have: %v", err)
	}
	asked()
	if got := read(t, run, state.RankID{World: 1}, 0, 12); !reflect.DeepEqual(got, want) {
		t.Error("the steps differ")
	}
	if n := changesDecided(t, w.plan); !maps.Equal(n, map[uint64]int{0: 1, 4: 1, 8: 1, 12: 1}) {
		t.Errorf("the plan has %v changes", n)
	}
	must(t, stop())
	if audited, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer,
		nil); err != nil || len(audited.Controls) != 4 {
		t.Errorf("the audit returned %+v, %v", audited, err)
	}
}

// Several daemons receive requests for one decision concurrently, during failovers. One of them is recorded, and all
// responses state it.
func TestMixIdempotent_ConcurrentRequestsRecordOne(t *testing.T) {
	w, _ := mixedCodeAndWeb(2000)
	cluster := newTestCluster()
	w.options.StallTimeout = 20 * time.Second
	runs := make([]*loader.Run, 3)
	for i := range runs {
		runs[i], _ = w.join(t, cluster, fmt.Sprint("daemon", i))
	}
	want := map[uint64]int{}
	for decided := uint64(1); decided <= 8; decided++ {
		want[decided] = 1
		read(t, runs[decided%3], state.RankID{World: 1}, decided-1, 1)
		answers := make([]state.MixResult, 6)
		var asking sync.WaitGroup
		for i := range answers {
			asking.Go(func() {
				var err error
				answers[i], err = changeOnce(t, runs[i%3], codeAndWeb(float64(1+i)/8), decided, "")
				if err != nil {
					t.Error(err)
				}
			})
		}
		if decided%2 == 0 {
			cluster.depose(lossReported)
		}
		asking.Wait()
		for i := range answers {
			answers[i].Duplicate = false
			if !reflect.DeepEqual(answers[i], answers[0]) {
				t.Errorf("decided behind %d steps: %+v and %+v", decided, answers[i], answers[0])
			}
		}
	}
	if n := changesDecided(t, w.plan); !maps.Equal(n, want) {
		t.Errorf("the plan has %v changes", n)
	}
}

// A change whose response is lost with its leader is requested again from the next leader, which finds it in the
// plan.
func TestMixIdempotent_LostResponseIsNoSecondChange(t *testing.T) {
	w, _ := mixedCodeAndWeb(2000)
	cluster := newTestCluster()
	w.options.StallTimeout = 20 * time.Second
	runs := make([]*loader.Run, 2)
	for i := range runs {
		runs[i], _ = w.join(t, cluster, fmt.Sprint("daemon", i))
	}
	read(t, runs[0], state.RankID{World: 1}, 0, 3)
	asks := 0
	if runs[0].IsLeader() {
		asks = 1
	}
	cluster.mu.Lock()
	cluster.mute = true
	cluster.mu.Unlock()
	if x, err := changeOnce(t, runs[asks], codeAndWeb(0.25), 3, ""); err != nil || x.Weights["code"] != 0.25 {
		t.Errorf("%+v, %v", x, err)
	}
	cluster.mu.Lock()
	if cluster.mute {
		t.Error("no answer was lost")
	}
	cluster.mu.Unlock()
	if n := changesDecided(t, w.plan); !maps.Equal(n, map[uint64]int{3: 1}) {
		t.Errorf("the plan has %v changes", n)
	}
}
