package packonline_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/internal/testscale"
	"loaderd/packonline"
)

// TestOffline_Quality checks the figures of ffd and bfd on log-normal lengths: padding including the final flush, ages,
// and no split of a document of at most a row. The ledger checks the latter two.
func TestOffline_Quality(t *testing.T) {
	for _, c := range []struct {
		packonline.Config
		documents int
		padding   float64 // maximum, of all slots
		long      bool    // only in the long test run
	}{
		{config("bfd", 2048, 4096, 16384), 200_000, 0.00005, true},
		{config("bfd", 8192, 4096, 16384), 200_000, 0.0001, true}, // one row is 0.00004
		{config("bfd", 2048, 1024, 16384), 100_000, 0.0001, false},
		{config("ffd", 2048, 4096, 16384), 200_000, 0.00005, false},
	} {
		if c.long && !testscale.All() {
			continue
		}
		have := packList(t, c.Config, lengths.LogNormal(c.documents, 1))
		if ratio := float64(have.Padding) / float64(have.Slots); ratio > c.padding {
			t.Errorf("%+v pads %.4f %%, want at most %.4f %%", c.Config, 100*ratio, 100*c.padding)
		}
	}
}

// TestWholePool_MatchesPapersSegmentTree compares bfd with a pool for all pieces with the paper's segment tree, and
// both with a lower bound.
func TestWholePool_MatchesPapersSegmentTree(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		row := 2 + r.IntN(300)
		in := randomLengths(r, 1+r.IntN(2000), row)
		if seed == 0 {
			row, in = 2048, lengths.LogNormal(100_000, 2)
		}
		p := newPacker(t, config("bfd", row, len(in), 0))
		var out packonline.Rows
		var tokens int64
		for i, n := range in {
			tokens += int64(n)
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		}
		p.Flush(&out)
		padding, slots := segmentTree(in, int32(row))
		if have := p.Counts(); have.Padding != padding || have.Slots != slots || slots-padding != tokens {
			t.Fatalf("seed %d: bfd fills %d slots with %d padding, the segment tree %d with %d", seed, have.Slots, have.Padding,
				slots, padding)
		}
	}
}

// TestPacker_SteadyStateAllocatesNothing checks that no method allocates once its slices have grown.
func TestPacker_SteadyStateAllocatesNothing(t *testing.T) {
	in := lengths.LogNormal(20_000, 1)
	for _, method := range packonline.Methods() {
		c := config(method, 2048, 1024, 4096)
		if packonline.IsMultiBucket(method) {
			c.Buckets = fiveBuckets
		}
		c.Holdback, c.Overlap, c.Extra, c.PaddingThreshold = 100, 0.3, 50, 0.02
		p := newPacker(t, c)
		var out packonline.Rows
		var seq uint64
		pack := func() {
			for _, n := range in {
				p.Add(packonline.Doc{Seq: seq, Length: n}, &out)
				seq++
				out.Reset()
			}
		}
		pack()
		pack()
		if n := testing.AllocsPerRun(2, pack); n > 0 {
			t.Errorf("%s: %.0f allocations for %d documents", method, n, len(in))
		}
	}
}

// TestConcat_CutsOneRun compares concat with its definition: the run of all tokens is cut every L tokens.
func TestConcat_CutsOneRun(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		row := 2 + r.IntN(100)
		in := randomLengths(r, r.IntN(200), row)
		var want, have []packonline.Piece
		at := 0 // offset in the row
		for i, n := range in {
			for start := int32(0); start < n; {
				length := min(n-start, int32(row-at))
				want = append(want, packonline.Piece{Doc: uint64(i), Start: start, Length: length})
				start += length
				at = (at + int(length)) % row
			}
		}
		p := newPacker(t, config("concat", row, 1, 0))
		var out packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		}
		if p.Counts().Padding > 0 {
			t.Fatalf("seed %d: %d padding before the flush", seed, p.Counts().Padding)
		}
		p.Flush(&out)
		for i := range out.Len() {
			_, pieces, _ := out.Row(i)
			have = append(have, pieces...)
		}
		if !slices.Equal(want, have) || p.Counts().Padding != int64((row-at)%row) {
			t.Fatalf("seed %d: rows of %d from %v are %v with %d padding, want %v", seed, row, in, have, p.Counts().Padding,
				want)
		}
	}
}
