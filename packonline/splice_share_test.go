package packonline

import (
	"math"
	"testing"
)

// TestBalance_ChoosesGreatestBufferedShare checks that the chosen class is the one with the greatest buffered share of
// recent arrivals, regardless of the sizes.
func TestBalance_ChoosesGreatestBufferedShare(t *testing.T) {
	for _, x := range []struct {
		name           string
		arrived, waits []int64
		want           int
	}{
		{"nothing waits", []int64{5, 5}, []int64{0, 0}, none},
		{"nothing of the first came", []int64{0, 8}, []int64{0, 1}, 1},
		{"more of the first", []int64{100, 10}, []int64{50, 4}, 0},
		{"more of the second", []int64{100, 10}, []int64{50, 6}, 1},
		{"as much", []int64{100, 10}, []int64{50, 5}, 0},
		{"what came is long ago", []int64{100, 0}, []int64{50, 1}, 1},
		{"more than 64 bits", []int64{math.MaxInt64, math.MaxInt64 - 1}, []int64{math.MaxInt64 / 2, math.MaxInt64 / 2}, 1},
	} {
		b := classBalance{nil, x.arrived, x.waits}
		if have := b.mostBuffered(); have != x.want {
			t.Errorf("%s: class %d, want %d", x.name, have, x.want)
		}
	}
	b := newClassBalance([]int32{100, 200})
	b.addPiece(100)
	b.removePiece(60)
	b.halveArrived()
	b.addPiece(190)
	b.removePiece(140)
	if b.mostBuffered() != 0 { // 40 of 50, and 50 of 190
		t.Errorf("of %+v class %d waits the most", b, b.mostBuffered())
	}
}

// With one row length, short pieces are scarce while their buffered share is less than half of their share of
// arrivals.
func TestBalance_Scarce(t *testing.T) {
	for _, x := range []struct {
		name           string
		arrived, waits []int64
		want           bool
	}{
		{"nothing arrived", []int64{0, 0}, []int64{0, 0}, false},
		{"no short ones arrived", []int64{0, 9}, []int64{0, 5}, false},
		{"as arrived", []int64{10, 90}, []int64{1, 9}, false},
		{"half as much", []int64{10, 90}, []int64{1, 19}, false},
		{"less", []int64{10, 90}, []int64{1, 20}, true},
		{"none wait", []int64{10, 90}, []int64{0, 1}, true},
	} {
		if have := (&classBalance{nil, x.arrived, x.waits}).isShortScarce(); have != x.want {
			t.Errorf("%s: scarce is %v", x.name, have)
		}
	}
	b := newClassBalance([]int32{400})
	b.addPiece(100)
	b.addPiece(101)
	if b.arrived[0] != 100 || b.arrived[1] != 101 || b.buffered[0] != 100 {
		t.Errorf("pieces of 100 and 101 tokens in rows of 400 are %+v", b)
	}
}
