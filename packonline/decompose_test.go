package packonline_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

// TestDecompose_IsBinarySplit compares the rows of each document with the binary digits of its length, and the rows
// of tails with a separate concat of them.
func TestDecompose_IsBinarySplit(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 8))
		c := randomConfig(r, "decompose")
		c.MaxDocumentsPerRow = 0
		c.MaxAge = 0
		least, longest := int32(c.Buckets[0]), int32(slices.Max(c.Buckets))
		p, tails := newPacker(t, c), newPacker(t, config("concat", int(least), 1, 0))
		var out, tailRows packonline.Rows
		var split int64
		for i, n := range randomLengths(r, 1+r.IntN(200), int(longest)) {
			var want, have []int32
			for range n / longest {
				want = append(want, longest)
			}
			for l := longest / 2; l >= least; l /= 2 {
				if n%longest&l != 0 {
					want = append(want, l)
				}
			}
			if len(want) > 1 || len(want) == 1 && n != want[0] {
				split++
			}
			if tail := n % least; tail > 0 {
				tails.Add(packonline.Doc{Seq: uint64(i), Length: tail}, &tailRows)
			}
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
			rows := out.Len()
			if tailRows.Len() > 0 {
				rows--
				l, pieces, _ := out.Row(rows)
				_, wantPieces, _ := tailRows.Row(0)
				if l != least || !slices.EqualFunc(pieces, wantPieces, func(a, b packonline.Piece) bool {
					return a.Doc == b.Doc && a.Length == b.Length
				}) {
					t.Fatalf("seed %d, %+v: a row of tails is %v, want the lengths of %v", seed, c, pieces, wantPieces)
				}
			}
			for k := range rows {
				l, pieces, _ := out.Row(k)
				if len(pieces) != 1 || pieces[0].Length != l {
					t.Fatalf("seed %d, %+v: a row of %d is %v", seed, c, l, pieces)
				}
				have = append(have, l)
			}
			out.Reset()
			tailRows.Reset()
			if !slices.Equal(have, want) {
				t.Fatalf("seed %d, %+v: %d tokens make rows of %v, want %v", seed, c, n, have, want)
			}
		}
		if have := p.Counts(); have.Padding > 0 || have.Truncated < split || have.Truncated > split+have.Rows {
			t.Fatalf("seed %d, %+v: %+v, %d documents are split before their tails", seed, c, have, split)
		}
	}
}

// TestDecompose_RefusesInvalidConfigurations checks that configurations without a binary split are rejected.
func TestDecompose_RefusesInvalidConfigurations(t *testing.T) {
	for name, x := range map[string]struct {
		buckets []int
		atom    float64
		want    string // fields
	}{
		"good":                  {[]int{256, 512, 1024}, 1, ""},
		"one":                   {[]int{2048}, 4, ""},
		"three quarters":        {[]int{512, 768, 1024}, 1, "buckets[1] buckets[2]"},
		"a gap":                 {[]int{512, 2048}, 1, "buckets[1]"},
		"part of a row":         {[]int{512, 1024}, 0.5, "atom"},
		"part, and not a power": {[]int{12}, 0.25, "buckets[0] atom"},
	} {
		t.Run(name, func(t *testing.T) {
			c := packonline.Config{Method: "decompose", Buckets: x.buckets, Atom: x.atom, Pool: 1}
			var have []string
			for _, e := range c.Validate() {
				have = append(have, e.Field)
			}
			if strings.Join(have, " ") != x.want {
				t.Fatalf("bad fields are %v, want %q", have, x.want)
			}
		})
	}
}

// TestDecompose_SplitsNearlyAll uses every power of two as a row length, so a document is only unsplit if its length
// is one of them. Table 1 of Beyond Fixed Length has 99.9 % split documents.
func TestDecompose_SplitsNearlyAll(t *testing.T) {
	in := lengths.LogNormal(200_000, 1)
	var whole int64
	for _, n := range in {
		if n&(n-1) == 0 && n > 1 {
			whole++
		}
	}
	c := packonline.Config{Method: "decompose", Buckets: []int{2}, Atom: 1, Pool: 1}
	for l := 4; l <= 16384; l *= 2 {
		c.Buckets = append(c.Buckets, l)
	}
	p := newPacker(t, c)
	var out packonline.Rows
	for i, n := range in {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		out.Reset()
	}
	have := p.Counts()
	if have.Documents-have.Truncated < whole || have.Documents-have.Truncated > whole+20 || have.Padding > 0 {
		t.Fatalf("%+v, %d lengths are powers of two", have, whole)
	}
}

func TestDecompose_RefusesImpossibleStates(t *testing.T) {
	refuses(t, packonline.Config{Method: "decompose", Buckets: []int{8, 16}, Atom: 1, Pool: 1}, []int32{3, 18},
		[]byte{20, 2, 6, 4, 2, 5, 16}, map[string]refusal{
			"as it was":           {[]byte{20, 2, 6, 4, 2, 5, 16}, ""},
			"no tail":             {[]byte{20, 2, 6, 4, 2, 5, 15}, "starts at 15, which is not a multiple of 8"},
			"tail of a cut":       {[]byte{20, 2, 7, 15, 4, 2, 5, 16}, ""},
			"a full row":          {[]byte{20, 2, 6, 4, 2, 11, 16}, "8 tokens or more wait for a row of 8"},
			"longer than any row": {[]byte{20, 2, 6, 4, 2, 33, 16}, "19 tokens or more wait for a row of 8"},
			"one document":        {[]byte{20, 2, 6, 0, 0, 5, 16}, "waits behind"},
		})
}
