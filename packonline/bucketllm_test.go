package packonline_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

var buckets16k = []int{1024, 2048, 4096, 8192, 16384}

// paperBuckets is bucketllm as in the paper's algorithms, on a plain list. Of equally long documents, the one that
// has had its length longest is first. Of pairs with equal sums, the one with the shorter longer piece is chosen. A
// piece that is due seeds a row.
type paperBuckets struct {
	c       packonline.Config
	lengths []int32
	pairs   bool
	pool    []paperPiece
	now     int
	rows    []string
}

type paperPiece struct {
	packonline.Piece
	arrived int
}

func (p *paperBuckets) add(doc uint64, length int32) {
	p.now++
	longest := slices.Max(p.lengths)
	x := paperPiece{packonline.Piece{Doc: doc, Length: length}, p.now}
	for x.Length >= longest {
		head := x
		head.Length = longest
		p.row(longest, []paperPiece{head})
		x.Start, x.Length = x.Start+longest, x.Length-longest
	}
	if x.Length > 0 {
		p.pool = append(p.pool, x)
	}
	for len(p.pool) >= p.c.Pool {
		p.generate(p.fitting(longest), false)
	}
	wait, _ := p.c.AtomWait()
	late := func(x paperPiece) bool { return p.c.MaxAge > 0 && p.now-x.arrived >= p.c.MaxAge-wait }
	if i := slices.IndexFunc(p.pool, late); i >= 0 {
		p.generate(i, true)
	}
}

func (p *paperBuckets) flush() {
	for len(p.pool) > 0 {
		p.generate(p.fitting(slices.Max(p.lengths)), false)
	}
}

// fitting returns the first of the longest pieces of at most room tokens, or -1.
func (p *paperBuckets) fitting(room int32) int {
	best := -1
	for i, x := range p.pool {
		if x.Length <= room && (best < 0 || x.Length > p.pool[best].Length) {
			best = i
		}
	}
	return best
}

func (p *paperBuckets) generate(tau int, due bool) {
	length := p.lengths[slices.IndexFunc(p.lengths, func(l int32) bool { return l >= p.pool[tau].Length })]
	room, padding := length, p.c.PaddingThreshold*float64(length)
	shortest := func() paperPiece {
		return slices.MinFunc(p.pool, func(a, b paperPiece) int { return cmp.Compare(a.Length, b.Length) })
	}
	var row []paperPiece
	for ; tau >= 0; tau = p.fitting(room) {
		chosen := []int{tau}
		r := room - p.pool[tau].Length
		if p.pairs && !due && shortest().Length > r && float64(r) > padding {
			if a, b := p.pair(p.pool[tau].Length, room); a >= 0 {
				chosen = []int{a, b}
			}
		}
		due = false
		for _, i := range slices.Backward(chosen) {
			row = append(row, p.pool[i])
			room -= p.pool[i].Length
			p.pool = slices.Delete(p.pool, i, i+1)
		}
	}
	if float64(room) > padding && len(p.pool) > 0 {
		x := shortest()
		i := slices.Index(p.pool, x)
		p.pool = slices.Delete(p.pool, i, i+1)
		head := x
		head.Length = room
		row = append(row, head)
		x.Start, x.Length = x.Start+room, x.Length-room
		p.pool = append(p.pool, x)
	}
	p.row(length, row)
}

// pair returns the two pieces with the greatest sum above least and at most most, in the order of the pool, or -1
// twice.
func (p *paperBuckets) pair(least, most int32) (int, int) {
	best, shorter, longer := least, int32(0), int32(0)
	for i, a := range p.pool {
		for _, b := range p.pool[:i] {
			sum, long := a.Length+b.Length, max(a.Length, b.Length)
			if sum <= most && (sum > best || sum == best && long < longer) {
				best, shorter, longer = sum, sum-long, long
			}
		}
	}
	if best == least {
		return -1, -1
	}
	i := slices.IndexFunc(p.pool, func(x paperPiece) bool { return x.Length == shorter })
	j := slices.IndexFunc(p.pool, func(x paperPiece) bool { return x.Length == longer })
	if i == j {
		j += 1 + slices.IndexFunc(p.pool[j+1:], func(x paperPiece) bool { return x.Length == longer })
	}
	return min(i, j), max(i, j)
}

// row records a row with its pieces in the order of their documents.
func (p *paperBuckets) row(length int32, row []paperPiece) {
	var pieces []packonline.Piece
	for _, x := range row {
		pieces = append(pieces, x.Piece)
	}
	p.rows = append(p.rows, describeSorted(length, pieces))
}

func describeSorted(length int32, pieces []packonline.Piece) string {
	pieces = slices.SortedFunc(slices.Values(pieces), func(a, b packonline.Piece) int { return cmp.Compare(a.Doc, b.Doc) })
	return fmt.Sprint(length, pieces)
}

// TestBucketLLM_MatchesPaper compares the method with the paper's algorithm row by row.
func TestBucketLLM_MatchesPaper(t *testing.T) {
	for _, method := range []string{"bucketllm", "bucketllm-v0"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(150) {
				r := rand.New(rand.NewPCG(seed, 7))
				c := randomConfig(r, method)
				want := paperBuckets{c: c, lengths: rowLengths(c), pairs: method == "bucketllm"}
				var have []string
				var out packonline.Rows
				take := func() {
					for i := range out.Len() {
						length, pieces, _ := out.Row(i)
						have = append(have, describeSorted(length, pieces))
					}
					out.Reset()
				}
				p := newPacker(t, c)
				in := randomLengths(r, 1+r.IntN(300), int(slices.Max(want.lengths)))
				for i, n := range in {
					want.add(uint64(i), n)
					p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
					take()
				}
				want.flush()
				p.Flush(&out)
				take()
				if !slices.Equal(have, want.rows) {
					for i := range have {
						if i == len(want.rows) || have[i] != want.rows[i] {
							t.Fatalf("seed %d, %+v, lengths %v: row %d is\n%s\nwant\n%s", seed, c, in, i, have[i],
								strings.Join(want.rows[i:min(i+1, len(want.rows))], ""))
						}
					}
					t.Fatalf("seed %d, %+v: %d rows, want %d", seed, c, len(have), len(want.rows))
				}
			}
		})
	}
}

// TestBucketLLM_Quality checks that both variants are close to the paper's table 1, and measures the cost of a bound
// on ages.
func TestBucketLLM_Quality(t *testing.T) {
	in := lengths.LogNormal(1_000_000, 1)
	for _, x := range []struct {
		method                      string
		pool, maxAge                int
		threshold                   float64
		padding, truncation, concat [2]float64 // minimum and maximum, the first two in %
	}{
		{"bucketllm", 100_000, 0, 0.03, [2]float64{0.10, 0.17}, [2]float64{0.20, 0.36}, [2]float64{2.75, 2.85}},
		{"bucketllm-v0", 10_000, 0, 0.1, [2]float64{0.50, 0.60}, [2]float64{0.05, 0.10}, [2]float64{2.78, 2.88}},
		{"bucketllm", 4096, 8192, 0.03, [2]float64{0, 0.3}, [2]float64{0, 1}, [2]float64{2.3, 2.9}},
	} {
		c := packonline.Config{Method: x.method, Buckets: buckets16k, Atom: 1, Pool: x.pool, MaxAge: x.maxAge,
			PaddingThreshold: x.threshold}
		p := newPacker(t, c)
		var out packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
			out.Reset()
		}
		p.Flush(&out)
		have := p.Counts()
		for _, f := range []struct {
			name  string
			have  float64
			bound [2]float64
		}{
			{"padding in %", 100 * float64(have.Padding) / float64(have.Slots), x.padding},
			{"truncation in %", 100 * float64(have.Truncated) / float64(have.Documents), x.truncation},
			{"documents a row", float64(have.Documents) / float64(have.Rows), x.concat},
		} {
			if f.have < f.bound[0] || f.have > f.bound[1] {
				t.Errorf("%+v: %s is %.4f, want %v", c, f.name, f.have, f.bound)
			}
		}
	}
}

// TestBucketLLM_SeedOnlyPermutesPieces checks that the seed only permutes pieces inside rows, and that they are not
// sorted without a seed either.
func TestBucketLLM_SeedOnlyPermutesPieces(t *testing.T) {
	in := lengths.LogNormal(5000, 3)
	run := func(seed uint64) (rows, sets []string, longestFirst int) {
		p := newPacker(t, packonline.Config{Method: "bucketllm", Buckets: buckets16k, Atom: 1, Pool: 500, Seed: seed})
		var out packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		}
		for i := range out.Len() {
			length, pieces, _ := out.Row(i)
			rows = append(rows, fmt.Sprint(length, pieces))
			sets = append(sets, describeSorted(length, pieces))
			if slices.IsSortedFunc(pieces, func(a, b packonline.Piece) int { return cmp.Compare(b.Length, a.Length) }) {
				longestFirst++
			}
		}
		return rows, sets, longestFirst
	}
	rows, sets, longestFirst := run(0)
	otherRows, otherSets, _ := run(1)
	if !slices.Equal(sets, otherSets) {
		t.Error("another seed makes other rows")
	}
	if slices.Equal(rows, otherRows) {
		t.Error("another seed keeps the order in rows")
	}
	if longestFirst > 2*len(rows)/3 {
		t.Errorf("%d of %d rows are sorted by length", longestFirst, len(rows))
	}
}

// TestBucketLLM_RefusesImpossibleStates replaces the pieces of the state.
func TestBucketLLM_RefusesImpossibleStates(t *testing.T) {
	c := packonline.Config{Method: "bucketllm", Buckets: []int{8, 16}, Atom: 1, Pool: 4, MaxAge: 9}
	refuses(t, c, []int32{3, 5, 7}, []byte{20, 2, 6, 4, 2, 10, 4, 2, 14}, map[string]refusal{
		"as it was":         {[]byte{20, 2, 6, 4, 2, 10, 4, 2, 14}, ""},
		"longer first":      {[]byte{20, 2, 10, 4, 2, 6, 4, 2, 14}, "behind a piece of 5"},
		"a full row":        {[]byte{20, 2, 6, 4, 2, 10, 4, 2, 32}, "16 tokens of document 14"},
		"one document":      {[]byte{20, 2, 6, 0, 0, 10, 8, 4, 14}, "waits behind"},
		"crossed documents": {[]byte{24, 2, 6, 1, 2, 10, 6, 2, 14}, "waits behind"},
	})
	larger := c
	larger.Pool = 5
	p := newPacker(t, larger)
	var out packonline.Rows
	for i, n := range []int32{3, 5, 7, 7} {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
	}
	full := p.AppendState(nil)
	at := slices.Index(full, 5) // number of pieces in the pool, after version, method, buckets and atom
	full[at] = 4
	if _, err := newPacker(t, c).RestoreState(full); err == nil || !strings.Contains(err.Error(), "4 pieces wait") {
		t.Fatalf("error is %v", err)
	}
}

// BenchmarkBucketLLM packs a million log-normal lengths at the setting closest to the paper's figures, including the
// flush. The baseline is the paper's method on a plain list, with fewer documents, because it scans the whole pool
// for every piece.
func BenchmarkBucketLLM(b *testing.B) {
	in := lengths.LogNormal(benchDocs, 1)
	for _, method := range []string{"bucketllm", "bucketllm-v0"} {
		for _, pool := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/pool-%d", method, pool), func(b *testing.B) {
				var counts packonline.Counts
				for b.Loop() {
					counts = packLengths(b, packonline.Config{Method: method, Buckets: buckets16k, Atom: 1, Pool: pool,
						PaddingThreshold: 0.03}, in)
				}
				report(b, counts.Padding, counts.Slots)
			})
		}
	}
	b.Run("baseline-list/pool-1000", func(b *testing.B) {
		const documents = 10_000
		for b.Loop() {
			p := paperBuckets{c: packonline.Config{Pool: 1000, PaddingThreshold: 0.03},
				lengths: []int32{1024, 2048, 4096, 8192, 16384}}
			for i, n := range in[:documents] {
				p.add(uint64(i), n)
			}
			p.flush()
		}
		b.ReportMetric(float64(b.N)*documents/b.Elapsed().Seconds(), "docs/s")
	})
}
