package packonline_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

func seamless(row, pool, maxAge int, overlap float64, extra int) packonline.Config {
	c := config("seamless", row, pool, maxAge)
	c.Overlap, c.Extra = overlap, extra
	return c
}

// windows is stage 1 of the paper (Eq. 1-3) in exact arithmetic. It returns the starts of the windows of a document,
// or nil if it gets none.
func windows(length, row int64, overlap string) (starts []int64) {
	n := length / row
	if n == 0 || length%row == 0 {
		return nil
	}
	r, ok := new(big.Rat).SetString(overlap)
	if !ok {
		panic(overlap)
	}
	most := ceil(r.Mul(r, big.NewRat(n*row, 1))) // Eq. 1
	if length+most < (n+1)*row {                 // Eq. 2
		return nil
	}
	step := row - ceil(big.NewRat((n+1)*row-length, n)) // Eq. 3
	for k := range n {
		starts = append(starts, k*step)
	}
	return append(starts, length-row)
}

func ceil(x *big.Rat) int64 {
	n := new(big.Int).Add(x.Num(), new(big.Int).Sub(x.Denom(), big.NewInt(1)))
	return n.Div(n, x.Denom()).Int64()
}

// covered closes the gap before the last window that Eq. 3 leaves if n overlaps, rounded up, exceed the number of
// tokens to repeat. Windows begin no earlier than the rest of the document permits.
func covered(starts []int64, length, row int64) (out []int64) {
	for k, start := range starts {
		out = append(out, max(start, length-int64(len(starts)-k)*row))
	}
	return out
}

// TestSeamless_WindowsMatchEquations compares stage 1 with the equations for all lengths up to 12 rows.
func TestSeamless_WindowsMatchEquations(t *testing.T) {
	var literal, moved int
	for _, row := range []int64{2, 3, 7, 10, 64, 100} {
		for _, overlap := range []string{"0", "0.1", "0.3", "1/3", "0.5", "0.7", "0.999"} {
			r, _ := new(big.Rat).SetString(overlap)
			ratio, _ := r.Float64()
			if overlap == "1/3" {
				overlap = "0.333333333"
			}
			c := seamless(int(row), 1, 0, ratio, 0)
			for length := int64(1); length <= 12*row; length++ {
				x := packWhole(t, c, []int32{int32(length)})
				starts := windows(length, row, overlap)
				want := covered(starts, length, row)
				if slices.Equal(starts, want) {
					literal++
				} else {
					moved++
				}
				repeated := int64(len(want))*row - length
				if want == nil {
					repeated = 0
					for start := int64(0); start < length; start += row {
						want = append(want, start)
					}
				}
				var have []int64
				end := int64(0)
				for _, pieces := range x.rows {
					have = append(have, int64(pieces[0].Start))
					if len(pieces) != 1 || int64(pieces[0].Start) > end {
						t.Fatalf("L %d, r %s: %d tokens come as %v", row, overlap, length, x.rows)
					}
					end = int64(pieces[0].Start + pieces[0].Length)
				}
				if !slices.Equal(have, want) || end != length || x.counts.Repeated != repeated {
					t.Fatalf("L %d, r %s: rows of %d tokens start at %v and repeat %d, want %v and %d", row, overlap, length, have,
						x.counts.Repeated, want, repeated)
				}
			}
		}
	}
	if moved == 0 || literal < moved {
		t.Errorf("the equations cover %d documents as they are and leave gaps in %d", literal, moved)
	}
}

// TestSeamless_OverlapIsDecimal tests values for which float64 rounds n*r*L to the wrong side of an integer, which
// would change the decision of Eq. 2.
func TestSeamless_OverlapIsDecimal(t *testing.T) {
	tested := 0
	for _, overlap := range []struct {
		text  string
		value float64
	}{{"0.1", 0.1}, {"0.3", 0.3}, {"0.55", 0.55}, {"0.7", 0.7}} {
		for row := int64(2); row <= 400; row++ {
			for n := int64(1); n <= 9; n++ {
				r, _ := new(big.Rat).SetString(overlap.text)
				most := ceil(r.Mul(r, big.NewRat(n*row, 1)))
				if most == int64(math.Ceil(float64(n)*overlap.value*float64(row))) || most >= row {
					continue
				}
				tested++
				c := seamless(int(row), 1, 0, overlap.value, 0)
				// the shortest document that Eq. 2 stretches
				for length, want := range map[int64]int64{(n+1)*row - most: most, (n+1)*row - most - 1: 0} {
					if have := packWhole(t, c, []int32{int32(length)}).counts.Repeated; have != want {
						t.Errorf("L %d, r %s: %d tokens repeat %d, want %d", row, overlap.text, length, have, want)
					}
				}
			}
		}
	}
	if tested < 10 {
		t.Errorf("float64 is wrong in %d cases only", tested)
	}
}

// offlineSeamless is the paper's method as published, except that the end of the run is not dropped.
func offlineSeamless(in []int32, row, extra int, overlap string) (rows [][]packonline.Piece, dropped int64) {
	var short []packonline.Piece
	for i, n := range in {
		starts := covered(windows(int64(n), int64(row), overlap), int64(n), int64(row))
		for _, start := range starts {
			rows = append(rows, []packonline.Piece{{Doc: uint64(i), Start: int32(start), Length: int32(row)}})
		}
		if starts == nil {
			full, rest := chunks([]int32{n}, int32(row))
			for _, p := range append(full, rest) {
				for k := range p {
					p[k].Doc = uint64(i)
				}
			}
			rows, short = append(rows, full...), append(short, rest...)
		}
	}
	var run []packonline.Piece
	for _, b := range decreasing(short, int32(row+extra), false) {
		if tokens(b) < int32(row) {
			run = append(run, b...)
			continue
		}
		kept, n := crop([][]packonline.Piece{b}, int32(row))
		rows, dropped = append(rows, kept...), dropped+n
	}
	for len(run) > 0 {
		var now []packonline.Piece
		left := int32(row)
		for left > 0 && len(run) > 0 {
			x := run[0]
			if x.Length > left {
				run[0].Start, run[0].Length = x.Start+left, x.Length-left
				x.Length = left
			} else {
				run = run[1:]
			}
			now, left = append(now, x), left-x.Length
		}
		rows = append(rows, now)
	}
	return rows, dropped
}

// TestSeamless_WholePoolMatchesPaper compares seamless with a pool for all pieces with the paper's method, row by row
// in order.
func TestSeamless_WholePoolMatchesPaper(t *testing.T) {
	ratios := []float64{0, 0.1, 0.3, 0.5, 0.9}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 8))
		row := 2 + r.IntN(300)
		ratio := ratios[r.IntN(len(ratios))]
		c := seamless(row, 0, 0, ratio, r.IntN(row/2+1))
		in := randomLengths(r, 1+r.IntN(400), row)
		want, dropped := offlineSeamless(in, row, c.Extra, fmt.Sprint(ratio))
		have := packWhole(t, c, in)
		if fmt.Sprint(have.rows) != fmt.Sprint(want) || have.counts.Dropped != dropped {
			t.Fatalf("seed %d, %+v: rows from %v are\n%v with %d dropped, want\n%v with %d", seed, c, in, have.rows,
				have.counts.Dropped, want, dropped)
		}
	}
}

// TestSeamless_FiguresOfPaper compares the paper's settings with the figures of an independent program on lengths of
// Table 13, and the online method with the offline one.
func TestSeamless_FiguresOfPaper(t *testing.T) {
	d, _ := lengths.ByName("pubmed")
	for _, x := range []struct {
		name         string
		pool, maxAge int
		most         int64 // dropped
		padding      int64
	}{
		{"offline", 0, 0, 70_000, 2047},
		{"pool of 4,096", 4096, 16384, 75_000, 2047},
		{"pool of 512", 512, 2048, 75_000, 2047},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := seamless(2048, x.pool, x.maxAge, 0.3, 50)
			if c.Pool == 0 {
				c.Pool = d.Documents
			}
			l, err := newLedger(c)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range d.Draw(d.Documents, 1) {
				if err := l.pack(uint64(i), n); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.flush(); err != nil {
				t.Fatal(err)
			}
			detail, counts := l.p.(interface{ Detail() map[string]int64 }).Detail(), l.p.Counts()
			near := func(what string, have, want int64) {
				if math.Abs(float64(have-want)) > 0.03*float64(want) {
					t.Errorf("%s: %d, want %d", what, have, want)
				}
			}
			near("documents under windows", detail["window_documents"], 6709)
			near("short tokens", detail["short_tokens"], 2_660_000)
			near("repeated tokens", counts.Repeated, 4_840_000)
			if counts.Dropped > x.most || counts.Padding > x.padding {
				t.Errorf("%d tokens are dropped and %d are padding, want at most %d and %d", counts.Dropped, counts.Padding,
					x.most, x.padding)
			}
		})
	}
}

// TestSeamless_RefusesImpossibleStates changes the end of the state: pool, run and the three numbers of the detail.
func TestSeamless_RefusesImpossibleStates(t *testing.T) {
	c := seamless(8, 3, 0, 0, 0)
	// c and d of 5 tokens are buffered, and the last 3 tokens of a
	end := []byte{2, 28, 6, 10, 4, 2, 10, 1, 11, 5, 7, 2, 0, 21, 1}
	refuses(t, c, []int32{5, 6, 5, 5}, end, map[string]refusal{
		"as it was": {end, ""},
		"cut short": {end[:len(end)-1], "cut short"},
		"pool over its bound": {[]byte{2, 28, 6, 10, 4, 2, 10, 2, 11, 5, 4, 4, 2, 2, 0, 21, 1},
			"4 pieces wait in a pool of 3"},
		"a row in the pool": {[]byte{2, 28, 6, 16, 4, 2, 10, 1, 11, 5, 7, 2, 0, 21, 1}, "are no remainder of rows of 8"},
		"a row in the run": {[]byte{2, 28, 6, 10, 4, 2, 10, 1, 11, 5, 17, 2, 0, 21, 1},
			"8 tokens or more wait for a row of 8"},
		"cut inside the run":   {[]byte{1, 28, 6, 10, 2, 7, 3, 7, 2, 4, 2, 7, 2, 0, 21, 1}, "in the middle of a row"},
		"a document in both":   {[]byte{2, 28, 6, 10, 4, 2, 10, 1, 3, 1, 7, 2, 0, 21, 1}, "waits behind"},
		"windows beyond count": {[]byte{2, 28, 6, 10, 4, 2, 10, 1, 11, 5, 7, 2, 5, 21, 1}, "5 documents under windows"},
		"too many short":       {[]byte{2, 28, 6, 10, 4, 2, 10, 1, 11, 5, 7, 2, 0, 22, 1}, "22 short tokens"},
		"too many runs":        {[]byte{2, 28, 6, 10, 4, 2, 10, 1, 11, 5, 7, 2, 0, 21, 2}, "2 rows of the run"},
	})
}
