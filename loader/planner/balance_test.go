package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

// imbalance returns the excess cost of the costliest rank, relative to the mean.
func imbalance(rows [][]packonline.Piece, world int) float64 {
	var most, sum int64
	for rank := range world {
		n := len(rows) / world
		var cost int64
		for _, r := range rows[rank*n : (rank+1)*n] {
			cost += attentionCost(r)
		}
		most, sum = max(most, cost), sum+cost
	}
	return float64(most)*float64(world)/float64(sum) - 1
}

// packedRows packs log-normal documents into rows.
func packedRows(t testing.TB, rows, length int) [][]packonline.Piece {
	p, err := packonline.New(packonline.Config{Method: "bfd", Buckets: []int{length}, Atom: 1, Pool: 4096, MaxAge: 16384})
	if err != nil {
		t.Fatal(err)
	}
	var out packonline.Rows
	for i, n := range lengths.LogNormal(20_000, 1) {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
	}
	var made [][]packonline.Piece
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(out.Len())[:rows] {
		_, pieces, _ := out.Row(i)
		made = append(made, pieces)
	}
	return made
}

// TestBalanceRows_LowersImbalance checks that balance keeps the set of rows. It also checks the imbalance for every
// world size with an equal number of at least four rows per rank. It is at most half of that of the original order, or
// a fifth if the number of rows is a power of two.
func TestBalanceRows_LowersImbalance(t *testing.T) {
	for _, rows := range []int{2, 12, 48, 64, 96, 256} {
		before := packedRows(t, rows, 2048)
		after := slices.Clone(before)
		balanceRows(after)
		again := slices.Clone(before)
		balanceRows(again)
		count := func(rows [][]packonline.Piece) map[string]int {
			m := map[string]int{}
			for _, r := range rows {
				m[fmt.Sprint(r)]++
			}
			return m
		}
		if fmt.Sprint(after) != fmt.Sprint(again) || fmt.Sprint(count(before)) != fmt.Sprint(count(after)) {
			t.Fatalf("%d rows: the order is not one of the same rows, or not the same twice", rows)
		}
		for world := 2; world <= rows; world++ {
			if rows%world != 0 {
				continue
			}
			was, is := imbalance(before, world), imbalance(after, world)
			if world*4 <= rows && rows >= 48 && is > max(was/2, 0.001) || world*4 <= rows && rows&(rows-1) == 0 &&
				is > max(was/5, 0.001) {
				t.Errorf("%d rows, world %d: imbalance %.4f, before %.4f", rows, world, is, was)
			}
			t.Logf("%d rows, world %d: %.2f %% -> %.2f %%", rows, world, 100*was, 100*is)
		}
	}
}
