package main

import (
	"math/rand/v2"
	"testing"

	"loaderd/packonline"
)

// TestMostRows_IsUpperBound checks bounds that can be counted by hand, and that no packing makes more full rows than
// the bound.
func TestMostRows_IsUpperBound(t *testing.T) {
	for _, x := range []struct {
		in   []int32
		want int64
	}{
		{[]int32{10, 10, 10}, 3},    // rests of 10 each
		{[]int32{11, 9, 5, 15}, 2},  // 1 + 9 + 5 + 5
		{[]int32{40, 45, 5}, 3},     // a full row, a full row and 5, 5
		{[]int32{20, 20, 20, 1}, 3}, // 10 each; a document of a full row needs no other
		{[]int32{12, 12, 12, 12}, 0},
	} {
		if have := mostRows(x.in, 10, 40); have != x.want {
			t.Errorf("mostRows(%v) is %d, want %d", x.in, have, x.want)
		}
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		in := make([]int32, 1+r.IntN(300))
		for i := range in {
			in[i] = 1 + r.Int32N(60)
		}
		p, err := packonline.New(beyondConfig("bucket", []int{10, 20, 40}, 50, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		var out packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		}
		p.Flush(&out)
		full := int64(0)
		for i := range out.Len() {
			length, pieces, _ := out.Row(i)
			for _, x := range pieces {
				length -= x.Length
			}
			if length == 0 {
				full++
			}
		}
		if most := mostRows(in, 10, 40); full > most {
			t.Errorf("seed %d: %d full rows, at most %d can be", seed, full, most)
		}
	}
}

func TestLeastPadding_Examples(t *testing.T) {
	for tokens, want := range map[int64]int64{0: 0, 1: 9, 9: 1, 10: 0, 11: 9} {
		if have := leastPadding(tokens, 10); have != want {
			t.Errorf("the last row of %d tokens in rows of 10 lacks %d, want %d", tokens, have, want)
		}
	}
	if have := longer([]int32{10, 11, 9, 30}, 10); have != 0.5 {
		t.Errorf("%v of the documents are longer than a row", have)
	}
}
