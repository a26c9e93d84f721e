package packonline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/internal/lengths"
	"loaderd/internal/testscale"
	"loaderd/packonline"
)

var fiveBuckets = []int{1024, 2048, 4096, 8192, 16384}

func bucketConfig(buckets []int, pool, maxAge int) packonline.Config {
	c := config("bucket", buckets[0], pool, maxAge)
	c.Buckets = buckets
	return c
}

// rests returns the tokens of all pieces beyond the whole units that they need, in units of the shortest row: the
// maximum number of rows that the pieces can fill.
func rests(in []int32, buckets []int) (most float64) {
	unit, longest := int32(buckets[0]), int32(buckets[len(buckets)-1])
	for _, n := range in {
		most += float64(n / longest)
		if n %= longest; n > 0 {
			most += float64((n-1)%unit+1) / float64(unit)
		}
	}
	return most
}

// TestBucket_Quality checks the figures of bucket, including the final flush. The ledger checks ages, and that no
// document that fits the longest row is split.
func TestBucket_Quality(t *testing.T) {
	logNormal := func(n int) []int32 { return lengths.LogNormal(n, 1) }
	draw := func(n int, next func(r *rand.Rand, at float64) float64) []int32 {
		r := rand.New(rand.NewPCG(7, 0))
		out := make([]int32, n)
		for i := range out {
			out[i] = int32(max(1, next(r, float64(i)/float64(n))))
		}
		return out
	}
	constant := draw(20_000, func(*rand.Rand, float64) float64 { return 1500 })
	code := draw(200_000, func(r *rand.Rand, _ float64) float64 { return math.Exp(6.1 + 1.4*r.NormFloat64()) })
	short := draw(200_000, func(r *rand.Rand, _ float64) float64 {
		return math.Exp(math.Log(60) - 0.32 + 0.8*r.NormFloat64())
	})
	drift := draw(200_000, func(r *rand.Rand, at float64) float64 { return math.Exp(5.5 + 1.5*at + r.NormFloat64()) })
	five, one, odd := testscale.Of(100_000, 500_000), testscale.Of(50_000, 200_000), testscale.Of(50_000, 200_000)
	for _, x := range []struct {
		name string
		packonline.Config
		in            []int32
		padding       float64 // maximum, of all slots
		concatenation float64 // maximum documents per row; 0 if only the number of tokens matters
		long          bool    // only in the long test run
	}{
		{"five buckets", bucketConfig(fiveBuckets, 4096, 8192), logNormal(five), 0.000004, 2.37, false},
		{"2048", bucketConfig([]int{2048}, 4096, 16384), logNormal(one), 0.000015, 0, false},
		{"8192", bucketConfig([]int{8192}, 4096, 16384), logNormal(200_000), 0.00004, 0, true},
		{"2048, small pool", bucketConfig([]int{2048}, 256, 16384), logNormal(100_000), 0.00004, 0, true},
		{"512, tiny pool", bucketConfig([]int{512}, 64, 16384), logNormal(50_000), 0.004, 0, false},
		{"512", bucketConfig([]int{512}, 4096, 16384), logNormal(150_000), 0.00004, 0, true},
		{"32768", bucketConfig([]int{32768}, 4096, 16384), logNormal(150_000), 0.0001, 0, true},
		{"odd buckets", bucketConfig([]int{300, 1000, 7777}, 4096, 8192), logNormal(odd), 0.00001, 2.52, false},
		{"far apart", bucketConfig([]int{2048, 131072}, 4096, 8192), logNormal(200_000), 0.00001, 3.7, true},
		{"small pool", bucketConfig(fiveBuckets, 256, 8192), logNormal(100_000), 0.00001, 2.65, true},
		{"age below pool", bucketConfig(fiveBuckets, 4096, 500), logNormal(100_000), 0.00003, 2.75, false},
		{"no age", bucketConfig(fiveBuckets, 4096, 0), logNormal(200_000), 0.00001, 2.37, true},
		{"code", bucketConfig(fiveBuckets, 4096, 8192), code, 0.00001, 2.72, true},
		{"code, 2048", bucketConfig([]int{2048}, 4096, 16384), code, 0.00003, 0, true},
		{"short", bucketConfig(fiveBuckets, 4096, 8192), short, 0.00002, 17.3, true},
		{"drift", bucketConfig(fiveBuckets, 4096, 8192), drift, 0.00001, 2.52, true},
		// 1,500 tokens never share a row of 2,048, and five of them leave the same share of 8,192 as ten do of 16,384.
		{"constant, 2048", bucketConfig([]int{2048}, 4096, 16384), constant, 548.0 / 2048, 1, false},
		// 17 pieces of 60 leave 4 tokens of 1,024. 273 of them leave the same number of 16,384, which is not worth such a
		// row.
		{"constant, short", bucketConfig(fiveBuckets, 4096, 8192), slices.Repeat([]int32{60}, 17*2000), 4.0 / 1024,
			17, false},
		{"constant", bucketConfig(fiveBuckets, 4096, 8192), constant, 692.0 / 8192, 5, false},
	} {
		if x.long && !testscale.All() {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			have := packList(t, x.Config, x.in)
			padding, concatenation := float64(have.Padding)/float64(have.Slots), float64(have.Documents)/float64(have.Rows)
			t.Logf("pads %.5f %%, %.4f documents a row (not below %.4f)", 100*padding, concatenation,
				float64(len(x.in))/rests(x.in, x.Buckets))
			if padding > x.padding {
				t.Errorf("pads %.5f %%, want at most %.5f %%", 100*padding, 100*x.padding)
			}
			if x.concatenation > 0 && concatenation > x.concatenation {
				t.Errorf("%.4f documents a row, want at most %.4f", concatenation, x.concatenation)
			}
		})
	}
}

// TestBucket_WholeUnitRowsAreBounded checks rows of whole units: the rests of the pieces and the padding add up to at
// least one unit per row.
func TestBucket_WholeUnitRowsAreBounded(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		unit := 2 + r.IntN(50)
		buckets := []int{unit}
		for range r.IntN(4) {
			buckets = append(buckets, buckets[len(buckets)-1]+unit*(1+r.IntN(3)))
		}
		in := randomLengths(r, 1+r.IntN(1000), buckets[len(buckets)-1])
		p := newPacker(t, bucketConfig(buckets, 1+r.IntN(200), r.IntN(400)))
		var out packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		}
		p.Flush(&out)
		c := p.Counts()
		if most := rests(in, buckets) + float64(c.Padding)/float64(unit); float64(c.Rows) > most+1e-6 {
			t.Fatalf("seed %d: %d rows of %v with %d padding, at most %.2f can be", seed, c.Rows, buckets, c.Padding, most)
		}
	}
}

// TestBucket_StarvesNoPiece checks a run without MaxAge, in which documents that complete each other keep leaving in
// pairs. The other documents are emitted nevertheless.
func TestBucket_StarvesNoPiece(t *testing.T) {
	const pool = 8
	l, err := newLedger(bucketConfig([]int{100, 200}, pool, 0))
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	add := func(n int32) {
		if err := l.pack(seq, n); err != nil {
			t.Fatal(err)
		}
		seq++
	}
	add(7)
	for range 1000 {
		add(40)
		add(60)
		if x := l.p.Pending(); x.Pieces > 0 && seq-x.Oldest > 16*pool {
			t.Fatalf("document %d waits behind %d", x.Oldest, seq-x.Oldest)
		}
	}
	if l.docs[0].done == 0 {
		t.Fatal("document 0 never left")
	}
}

// TestBucket_RefusesImpossibleStates changes single bytes of valid states.
func TestBucket_RefusesImpossibleStates(t *testing.T) {
	state := func(pool int, in ...int32) []byte {
		p := newPacker(t, bucketConfig([]int{8, 16}, pool, 0))
		var out packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		}
		return p.AppendState(nil)
	}
	good := state(4, 5, 6, 9)
	last := len(good) - 2 // length * 2 of the last piece, before the spent credit
	pool := 0             // offset of the pool
	for other := state(3, 5, 6, 9); good[pool] == other[pool]; pool++ {
	}
	aged := state(4, append([]int32{5}, slices.Repeat([]int32{16}, 20)...)...)
	for name, x := range map[string]struct {
		state []byte
		at    int
		to    byte
		want  string // "" for a valid state
	}{
		"good":             {good, last, 10 << 1, ""},
		"a whole row":      {good, last, 8 << 1, "tokens [0, +8) of document 2 fill a row and wait"},
		"a whole long row": {good, last, 16 << 1, "tokens [0, +16) of document 2 are no remainder of rows of 16"},
		"no tokens":        {good, last, 0, "empty"},
		"same document":    {good, last - 2, 0, "a piece is of document 1, too early for number 3"},
		"another piece":    {good, last - 9, 4, "cut short"},
		"full pool":        {good, pool, 2, "3 pieces wait in a pool of 2"},
		"old enough":       {aged, pool, 2, ""},
		"too old":          {aged, pool, 1, "a piece of document 0 is 20 documents old, the bound is 16"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := slices.Clone(x.state)
			bad[x.at] = x.to
			p := newPacker(t, bucketConfig([]int{8, 16}, int(bad[pool]), 0))
			_, err := p.RestoreState(bad)
			switch {
			case x.want == "" && err != nil, x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Fatalf("error is %v, want %q", err, x.want)
			case err != nil && p.Pending() != packonline.Pending{}:
				t.Fatalf("a refused state left %+v", p.Pending())
			}
		})
	}
}

// BenchmarkBucketHostile packs lengths that are hard to pack, from a full pool, after all saved credit is spent.
// "x-natural" is the speed, in documents, relative to that for log-normal lengths in the same rows.
func BenchmarkBucketHostile(b *testing.B) {
	const pool, documents = 1024, 2000
	pack := func(c packonline.Config, in []int32) (time.Duration, int64, packonline.Counts) {
		p := newPacker(b, c)
		var out packonline.Rows
		var start time.Time
		var tokens int64
		for i, n := range in {
			if i == len(in)-documents {
				start, tokens = time.Now(), p.Counts().Tokens
			}
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
			out.Reset()
		}
		return time.Since(start), p.Counts().Tokens - tokens, p.Counts()
	}
	for _, buckets := range [][]int{{2048}, {8192}, {2048, 3072}, fiveBuckets} {
		c := bucketConfig(buckets, pool, 4*pool)
		natural, _, _ := pack(c, lengths.LogNormal(3*pool+documents, 1))
		for _, in := range lengths.HardCases(3*pool+documents, buckets) {
			b.Run(fmt.Sprintf("%v/%s", buckets, in.Name), func(b *testing.B) {
				var total time.Duration
				var all int64
				var counts packonline.Counts
				for range b.N {
					took, tokens, have := pack(c, in.Lengths)
					total, all, counts = total+took, all+tokens, have
				}
				b.ReportMetric(float64(b.N)*documents/total.Seconds(), "docs/s")
				b.ReportMetric(float64(all)/total.Seconds()/1e6, "Mtokens/s")
				b.ReportMetric(100*float64(counts.Padding)/float64(counts.Slots), "%pad")
				b.ReportMetric(float64(natural)*float64(b.N)/float64(total), "x-natural")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkBucket_Multiples packs multiples of 127, whose sums never equal a row of 2,048 or 8,192. They are uniform
// up to a number of times or, with "skewed", each is two thirds as frequent as the one before. The final flush is
// included. The goal is 300,000 documents or 500 million tokens per second: "x-goal" is the greater of both ratios.
func BenchmarkBucket_Multiples(b *testing.B) {
	const unit, most, documents = 127, 64, 50_000
	uniform := func(times int32) func(*rand.Rand) int32 {
		return func(r *rand.Rand) int32 { return 1 + r.Int32N(times) }
	}
	skewed := func(r *rand.Rand) int32 {
		times := int32(1)
		for times < most && r.IntN(3) > 0 {
			times++
		}
		return times
	}
	for _, x := range []struct {
		name  string
		times func(*rand.Rand) int32
	}{
		{"1-64", uniform(64)}, {"1-32", uniform(32)}, {"1-16", uniform(16)}, {"1-8", uniform(8)}, {"1-4", uniform(4)},
		{"skewed", skewed},
	} {
		r := rand.New(rand.NewPCG(1, 1))
		in := make([]int32, documents)
		for i := range in {
			in[i] = unit * x.times(r)
		}
		for _, row := range []int{2048, 8192} {
			for _, pool := range []int{1024, 4096} {
				b.Run(fmt.Sprintf("%s/row=%d/pool=%d", x.name, row, pool), func(b *testing.B) {
					var counts packonline.Counts
					for b.Loop() {
						counts = packLengths(b, bucketConfig([]int{row}, pool, 4*pool), in)
					}
					second := float64(b.N) / b.Elapsed().Seconds()
					docs, tokens := second*documents, second*float64(counts.Tokens)
					b.ReportMetric(docs, "docs/s")
					b.ReportMetric(tokens/1e6, "Mtokens/s")
					b.ReportMetric(max(docs/300e3, tokens/500e6), "x-goal")
					b.ReportMetric(100*float64(counts.Padding)/float64(counts.Slots), "%pad")
				})
			}
		}
	}
}

// BenchmarkBucket packs a million log-normal lengths with bucket, including the final flush. The baseline is windowed
// best-fit-decreasing into rows of 2,048; "x-bfd" is the speed relative to it.
func BenchmarkBucket(b *testing.B) {
	in := lengths.LogNormal(benchDocs, 1)
	baseline := config("bfd", 2048, 4096, 16384)
	start := time.Now()
	packLengths(b, baseline, in)
	bfd := time.Since(start)
	for _, x := range []struct {
		name string
		packonline.Config
	}{
		{"baseline-bfd-2048", baseline},
		{"five-buckets", bucketConfig(fiveBuckets, 4096, 8192)},
		{"2048", bucketConfig([]int{2048}, 4096, 16384)},
		{"8192", bucketConfig([]int{8192}, 4096, 16384)},
		{"five-buckets-small-pool", bucketConfig(fiveBuckets, 64, 8192)},
	} {
		b.Run(x.name, func(b *testing.B) {
			var counts packonline.Counts
			for b.Loop() {
				counts = packLengths(b, x.Config, in)
			}
			report(b, counts.Padding, counts.Slots)
			b.ReportMetric(float64(counts.Documents)/float64(counts.Rows), "docs/row")
			b.ReportMetric(float64(bfd)*float64(b.N)/float64(b.Elapsed()), "x-bfd")
		})
	}
}
