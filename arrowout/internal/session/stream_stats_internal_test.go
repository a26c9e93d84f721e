package session

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"loaderd/internal/auth"
	"loaderd/loader/state"
)

// at returns the time that many seconds after the start of the process.
func at(seconds float64) time.Time {
	return slotOrigin.Add(time.Duration(seconds * float64(time.Second)))
}

// Each wait is in a bin whose middle differs from it by at most an eighth, and bins ascend.
func TestWaitHistogram_BinsAscend(t *testing.T) {
	rng, before := rand.New(rand.NewPCG(1, 2)), time.Duration(-1)
	for b := range waitBins {
		if mid := binMiddle(b); binOf(mid) != b || mid <= before {
			t.Fatalf("bin %d has the middle %s, which lies in bin %d; the one before %s", b, mid, binOf(mid), before)
		}
		before = binMiddle(b)
	}
	for range 10_000 {
		wait := time.Duration(math.Exp(rng.Float64() * math.Log(float64(time.Hour)))).Truncate(time.Microsecond)
		if mid := binMiddle(binOf(wait)); math.Abs(float64(mid-wait)) > float64(wait)/8+float64(time.Microsecond)/2 {
			t.Errorf("%s is counted as %s", wait, mid)
		}
	}
	for wait, bin := range map[time.Duration]int{-time.Second: 0, 0: 0, 999: 0, 3 * time.Microsecond: 3,
		4 * time.Microsecond: 4, math.MaxInt64: waitBins - 1} {
		if got := binOf(wait); got != bin {
			t.Errorf("%s lies in bin %d, want %d", wait, got, bin)
		}
	}
}

// near compares a duration with its approximation by bins.
func near(got, want time.Duration) bool {
	return math.Abs(float64(got-want)) <= float64(want)/8+float64(time.Microsecond)
}

// Quantiles include only the last minute and the present wait.
func TestWaitHistogram_QuantilesOfLastMinute(t *testing.T) {
	var w waitHistogram
	if q := w.quantiles(at(1000), 0, 0.5); q[0] != 0 {
		t.Errorf("of no waits: %s", q[0])
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for second := 900.0; second < 940; second++ { // forgotten
		w.add(at(second), time.Hour/2)
	}
	var all []time.Duration
	for second := 1000.0; second < 1056; second += 0.1 {
		wait := time.Duration(math.Exp(rng.Float64()*12)) * time.Microsecond
		all = append(all, wait)
		w.add(at(second), wait)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		if got := w.quantiles(at(1056), 0, q)[0]; !near(got, want) {
			t.Errorf("quantile %v is %s, want %s", q, got, want)
		}
	}
	if q := w.quantiles(at(1121), 0, 0.5, 0.99); q[0] != 0 || q[1] != 0 {
		t.Errorf("a minute later: %s", q)
	}
	if q := w.quantiles(at(1200), 90*time.Second, 0.5, 0.99); !near(q[0], 90*time.Second) || !near(q[1], 90*time.Second) {
		t.Errorf("of one wait that goes on: %s", q)
	}
}

// The rate is in bytes per second over the last ten seconds, or over the lifetime of a younger stream.
func TestByteRate_OverLastTenSeconds(t *testing.T) {
	var r byteRate
	for second := 100.0; second < 200; second += 0.25 {
		r.add(at(second), 250)
	}
	for _, c := range []struct {
		name       string
		now, since float64
		want       float64
	}{
		{"steady", 199.9, 100, 1000}, {"three seconds without", 203, 100, 700}, {"long without", 300, 100, 0},
		{"young", 199.9, 194.4, 2000}, {"new", 199.9, 199.8, 11000},
	} {
		if got := r.rate(at(c.now), at(c.since)); math.Abs(got-c.want) > c.want*0.05 {
			t.Errorf("%s: %v bytes a second, want %v", c.name, got, c.want)
		}
	}
}

// begins opens and begins a stream at a time.
func begins(t *testing.T, r *Registry, now time.Time, at state.RankID, who, address string, step uint64) *Session {
	t.Helper()
	x := ReaderInfo{Identity: auth.Identity{Name: who, Shared: true}, RankID: at, Address: address, Step: step}
	s, err := r.Open(t.Context(), x, nil)
	if err == nil {
		err = s.start(t.Context(), now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Only the same reader, if it returns within a minute, continues its statistics.
func TestStreamStats_ContinueWithinAMinute(t *testing.T) {
	r, place := registry(), state.RankID{Job: "train", Rank: 1, World: 2}
	waits := func(now time.Time) time.Duration {
		all := r.StreamStats(now)
		if len(all) != 1 {
			t.Fatalf("%d streams are open, want 1", len(all))
		}
		return all[0].WaitP50
	}
	s := begins(t, r, at(1000), place, "ann", "here", 5)
	s.RecordWaitStart(at(1000))
	if got := waits(at(1010)); !near(got, 10*time.Second) {
		t.Errorf("while it waits: %s", got)
	}
	s.RecordStep(at(1030), 30*time.Second)
	if got := r.StreamStats(at(1030))[0].Waiting; got != 0 {
		t.Errorf("it has its step, and waits %s", got)
	}
	s.deregister(at(1030))
	if got := r.StreamStats(at(1031)); len(got) != 0 {
		t.Fatalf("open streams: %v", got)
	}
	s = begins(t, r, at(1031), place, "ann", "there", 7)
	if got := waits(at(1032)); !near(got, 30*time.Second) {
		t.Errorf("after it has returned: %s", got)
	}
	if got := r.StreamStats(at(1032))[0]; got.Step != 7 || got.Address != "there" || !got.Since.Equal(at(1031)) {
		t.Errorf("its stream is %+v", got)
	}
	s.deregister(at(1032))
	for who, place := range map[string]state.RankID{"bob": place, "ann": {Job: "eval", Rank: 1, World: 2}} {
		s := begins(t, r, at(1033), place, who, "", 0)
		if got := waits(at(1033)); got != 0 {
			t.Errorf("%s as %v waited %s", who, place, got)
		}
		s.deregister(at(1033))
	}
	r.StreamStats(at(1100))
	if len(r.recentReaders) > 0 {
		t.Errorf("%d readers are remembered after a minute", len(r.recentReaders))
	}
	for rank := range 2 * maxRecentReaders {
		begins(t, r, at(1200), state.RankID{Rank: rank}, "", "", 0).deregister(at(1200))
	}
	if len(r.recentReaders) > maxRecentReaders {
		t.Errorf("%d readers are remembered, want %d at most", len(r.recentReaders), maxRecentReaders)
	}
}

// The step is the one after the last that was sent completely.
func TestStreamStats_CountWholeSteps(t *testing.T) {
	r := registry()
	s := begins(t, r, at(10), state.RankID{World: 1}, "", "", 4)
	for _, c := range []struct {
		step uint64
		last bool
		want uint64
	}{{4, false, 4}, {4, true, 5}, {5, true, 6}} {
		s.RecordBatch(at(12), c.step, c.last, 1000)
		if got := r.StreamStats(at(12))[0]; got.Step != c.want {
			t.Errorf("step %d, want %d", got.Step, c.want)
		}
	}
	if got := r.StreamStats(at(12))[0].BytesPerSecond; got < 1400 || got > 1600 {
		t.Errorf("%v bytes a second, want 3000 in two", got)
	}
}
