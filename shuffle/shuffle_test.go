package shuffle_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/shuffle"
)

// run drives a window and records its output. Atoms are numbers in order of arrival.
type run struct {
	c   shuffle.Config
	w   *shuffle.Window[uint64]
	in  uint64
	out []uint64
	at  []uint64 // number of atoms added when out[i] left
	odd int      // number of odd atoms that left
	// even makes the window prefer odd or even atoms, whichever have left less often.
	even bool
}

func newRun(window int, seed uint64) *run {
	c := shuffle.Config{Window: window, Seed: seed}
	return &run{c: c, w: shuffle.New[uint64](c)}
}

func newEvenRun(window int, seed uint64) *run {
	r := newRun(window, seed)
	r.even = true
	r.w.SetCost(r.cost)
	return r
}

func (r *run) cost(atom *uint64) float64 {
	odd := r.odd + int(*atom%2)
	return math.Abs(float64(2*odd - len(r.out) - 1))
}

func (r *run) emit(atom uint64) {
	r.out, r.at = append(r.out, atom), append(r.at, r.in)
	r.odd += int(atom % 2)
}

// feed adds the next n atoms.
func (r *run) feed(n int) {
	for range n {
		r.in++
		r.w.Add(r.in-1, r.emit)
	}
}

func appendAtom(b []byte, atom uint64) []byte { return binary.LittleEndian.AppendUint64(b, atom) }

func readAtom(b []byte) (uint64, []byte, error) {
	if len(b) < 8 {
		return 0, nil, errors.New("short atom")
	}
	return binary.LittleEndian.Uint64(b), b[8:], nil
}

func (r *run) restart(t *testing.T) {
	t.Helper()
	state := r.w.AppendState([]byte("before"), appendAtom)[len("before"):]
	r.w = shuffle.New[uint64](r.c)
	if r.even {
		r.w.SetCost(r.cost)
	}
	rest, err := r.w.RestoreState(append(state, "behind"...), readAtom)
	if err != nil || string(rest) != "behind" {
		t.Fatalf("restore leaves %q, %v", rest, err)
	}
}

// TestWindow_Invariants adds, flushes and restarts at random and checks the four invariants.
func TestWindow_Invariants(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		window := r.IntN(20)
		begin := newRun
		if seed%2 == 1 {
			begin = newEvenRun
		}
		a, b := begin(window, seed), begin(window, seed) // b is restarted
		for range r.IntN(200) {
			n := r.IntN(5)
			a.feed(n)
			b.feed(n)
			b.restart(t)
			if r.IntN(40) == 0 {
				a.w.Flush(a.emit)
				b.w.Flush(b.emit)
			}
			waiting := map[uint64]bool{}
			a.w.Each(func(atom uint64) { waiting[atom] = true })
			if len(waiting) != a.w.Len() || a.w.Len() != int(a.in)-len(a.out) {
				t.Fatalf("seed %d: %d of %d atoms are out, %d wait, Len is %d", seed, len(a.out), a.in, len(waiting), a.w.Len())
			}
			if a.w.Len() > max(window, 0) || window == 1 && a.w.Len() > 0 {
				t.Fatalf("seed %d: %d atoms wait in a window of %d", seed, a.w.Len(), window)
			}
		}
		a.w.Flush(a.emit)
		b.w.Flush(b.emit)
		if !slices.Equal(a.out, b.out) {
			t.Fatalf("seed %d: a restart changes the order", seed)
		}
		for i, atom := range a.out {
			if wait := a.at[i] - 1 - atom; wait > uint64(shuffle.MaxWaitWindows*window) {
				t.Fatalf("seed %d: atom %d of window %d waited for %d later ones", seed, atom, window, wait)
			}
		}
		slices.Sort(a.out)
		for i, atom := range a.out {
			if uint64(i) != atom {
				t.Fatalf("seed %d: atom %d is missing or there twice", seed, i)
			}
		}
		if uint64(len(a.out)) != a.in {
			t.Fatalf("seed %d: %d of %d atoms left", seed, len(a.out), a.in)
		}
	}
}

func TestWindow_ZeroKeepsOrder(t *testing.T) {
	for _, window := range []int{0, 1} {
		r := newRun(window, 5)
		r.feed(100)
		if len(r.out) != 100 || !slices.IsSorted(r.out) {
			t.Fatalf("window %d: %v", window, r.out)
		}
	}
}

func TestWindow_SeedsDiffer(t *testing.T) {
	a, b := newRun(64, 1), newRun(64, 2)
	a.feed(1000)
	b.feed(1000)
	if slices.Equal(a.out, b.out) {
		t.Fatal("two seeds give one order")
	}
}

// TestWindow_OrderIsFixed pins the order, which was computed by an independent program. Another order would change
// every plan.
func TestWindow_OrderIsFixed(t *testing.T) {
	r := newRun(5, 42)
	r.feed(20)
	r.w.Flush(r.emit)
	if have, want := fmt.Sprint(r.out), "[3 0 6 7 1 5 10 2 4 13 9 15 14 12 11 19 16 8 18 17]"; have != want {
		t.Fatalf("order is %s, want %s", have, want)
	}
	if have, want := shuffle.NewKey(42, "shuffle").Uint64(7), uint64(0x71bdf77ef20af011); have != want {
		t.Fatalf("draw 7 is %#x, want %#x", have, want)
	}
}

// A window with a preference keeps the numbers of odd and even atoms that have left nearly equal at any time. With
// uniform draws their difference is a random walk.
func TestWindow_PreferenceKeepsBalance(t *testing.T) {
	worst := func(r *run) (most int) {
		r.feed(100_000)
		odd := 0
		for i, atom := range r.out {
			odd += int(atom % 2)
			most = max(most, 2*odd-i-1, i+1-2*odd)
		}
		return most
	}
	if drawn, even := worst(newRun(1000, 1)), worst(newEvenRun(1000, 1)); even > 10 || drawn < 4*even {
		t.Errorf("odd atoms are off by %d, by %d where the window prefers", drawn, even)
	}
}

// TestWindow_WaitsAreGeometric measures the waits of the atoms of a long run. They are those of uniform draws:
// geometric with a mean of one window, up to the bound. A share of (1-1/W)^(4W) of the atoms reaches the bound and
// leaves there. Neighbours leave independently of each other.
func TestWindow_WaitsAreGeometric(t *testing.T) {
	const window, atoms = 1000, 1_000_000
	r := newRun(window, 3)
	r.feed(atoms)
	waits := make([]float64, atoms)
	var n, sum, forced float64
	for i, atom := range r.out {
		wait := float64(r.at[i] - 1 - atom)
		waits[atom] = wait
		if int(atom) < atoms-shuffle.MaxWaitWindows*window { // atoms that have all left
			n++
			sum += wait
			if wait == shuffle.MaxWaitWindows*window {
				forced++
			}
		}
	}
	// Each atom that leaves makes room for one, so an atom waits on average for as many later ones as the window has
	// slots.
	if mean := sum / n; math.Abs(mean-window) > 5 {
		t.Errorf("atoms wait for %.1f later ones on average, want %d", mean, window)
	}
	// Forced departures replace draws of other atoms, so the others wait slightly longer than a geometric wait.
	if share := forced / n; share > 0.025 {
		t.Errorf("%.2f %% of the atoms leave by the bound", 100*share)
	}
	var product, square float64
	for i := range int(n) - 1 {
		a, b := waits[i]-sum/n, waits[i+1]-sum/n
		product += a * b
		square += a * a
	}
	if correlation := product / square; math.Abs(correlation) > 0.005 {
		t.Errorf("waits of neighbours correlate by %.4f", correlation)
	}
	// Neighbours in the output were far apart in the input.
	var near float64
	for i := 1; i < len(r.out); i++ {
		if d := int64(r.out[i]) - int64(r.out[i-1]); -10 <= d && d <= 10 {
			near++
		}
	}
	// Two independent geometric waits differ by 1 ... 10 either way in 20 of 2W cases.
	if share := near / float64(len(r.out)); share > 1.3*20/(2*window) {
		t.Errorf("%.2f %% of the neighbours were within 10 of each other before", 100*share)
	}
}

// TestKey_DrawsAreUniform checks Below against the uniform distribution by chi-square, for consecutive indexes, sparse
// indexes, and keys of consecutive seeds.
func TestKey_DrawsAreUniform(t *testing.T) {
	const cells, draws = 100, 100_000
	for name, draw := range map[string]func(i uint64) int{
		"indexes in a row": func(i uint64) int { return shuffle.NewKey(1, "a").IntN(i, cells) },
		"sparse indexes":   func(i uint64) int { return shuffle.NewKey(1, "a").IntN(i<<40, cells) },
		"seeds in a row":   func(i uint64) int { return shuffle.NewKey(i, "a").IntN(0, cells) },
		"differences": func(i uint64) int {
			return (shuffle.NewKey(1, "a").IntN(i, cells) - shuffle.NewKey(1, "b").IntN(i, cells) + cells) % cells
		},
	} {
		count := make([]float64, cells)
		for i := range uint64(draws) {
			count[draw(i)]++
		}
		var x float64
		for _, n := range count {
			x += (n - draws/cells) * (n - draws/cells) / (draws / cells)
		}
		// 99 degrees of freedom: mean 99, standard deviation 14.
		if x < 99-4.5*14 || x > 99+4.5*14 {
			t.Errorf("%s: chi-square is %.0f", name, x)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a draw below 0 is answered")
		}
	}()
	shuffle.NewKey(1, "a").IntN(0, 0)
}

func TestWindow_AllocatesNothing(t *testing.T) {
	w := shuffle.New[uint64](shuffle.Config{Window: 100})
	drop := func(uint64) {}
	if n := testing.AllocsPerRun(10, func() {
		for i := range uint64(1000) {
			w.Add(i, drop)
		}
	}); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}

func TestConfig_Validate(t *testing.T) {
	for window, good := range map[int]bool{-1: false, 0: true, 1 << 24: true, 1<<24 + 1: false} {
		bad := shuffle.Config{Window: window}.Validate()
		if (len(bad) == 0) != good {
			t.Errorf("window %d: %v", window, bad)
		}
		for _, e := range bad {
			if !strings.HasPrefix(e.Error(), fmt.Sprintf("window: %d: want ", window)) {
				t.Errorf("%v does not name the field and its value", e)
			}
		}
	}
}

func BenchmarkWindow_Add(b *testing.B) {
	for _, window := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(window), func(b *testing.B) {
			w := shuffle.New[[4]uint64](shuffle.Config{Window: window})
			drop := func([4]uint64) {}
			for range window {
				w.Add([4]uint64{}, drop)
			}
			for b.Loop() {
				w.Add([4]uint64{}, drop)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "atoms/s")
		})
	}
}

func TestWindow_FlushChoosesAmongBufferedAtoms(t *testing.T) {
	const atoms = 1000
	r := newEvenRun(10, 1)
	for i := range uint64(atoms) { // all even atoms before the odd ones
		r.in++
		r.w.Buffer(2*(i%(atoms/2)) + i/(atoms/2))
	}
	if len(r.out) > 0 || r.w.Len() != atoms {
		t.Fatalf("%d atoms have left and %d wait, want none and %d", len(r.out), r.w.Len(), atoms)
	}
	r.w.Flush(r.emit)
	odd := 0
	for i, atom := range r.out {
		odd += int(atom % 2)
		if off := 2*odd - i - 1; off < -2 || off > 2 {
			t.Fatalf("%d of the first %d atoms are odd", odd, i+1)
		}
	}
	slices.Sort(r.out)
	if r.out = slices.Compact(r.out); len(r.out) != atoms || r.w.Len() != 0 {
		t.Fatalf("%d atoms have left and %d wait, want %d and none", len(r.out), r.w.Len(), atoms)
	}
}
