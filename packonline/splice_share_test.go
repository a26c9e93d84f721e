package packonline

import (
	"math"
	"testing"
)

// TestBalanceComparesShares: the class is chosen of which the greatest share of what came lately waits, whatever the sizes.
func TestBalanceComparesShares(t *testing.T) {
	for _, x := range []struct {
		name        string
		came, waits []int64
		want        int
	}{
		{"one class", nil, nil, none},
		{"nothing waits", []int64{5, 5}, []int64{0, 0}, none},
		{"nothing of the first came", []int64{0, 8}, []int64{0, 1}, 1},
		{"more of the first", []int64{100, 10}, []int64{50, 4}, 0},
		{"more of the second", []int64{100, 10}, []int64{50, 6}, 1},
		{"as much", []int64{100, 10}, []int64{50, 5}, 0},
		{"what came is long ago", []int64{100, 0}, []int64{50, 1}, 1},
		{"more than 64 bits", []int64{math.MaxInt64, math.MaxInt64 - 1}, []int64{math.MaxInt64 / 2, math.MaxInt64 / 2}, 1},
	} {
		b := balance{x.came, x.waits}
		if have := b.most(); have != x.want {
			t.Errorf("%s: class %d, want %d", x.name, have, x.want)
		}
	}
	b := newBalance(2)
	b.come(0, 100)
	b.leave(0, 60)
	b.halve()
	b.come(1, 90)
	b.leave(1, 40)
	if b.most() != 0 { // 40 of 50, and 50 of 90
		t.Errorf("of %+v class %d waits the most", b, b.most())
	}
}
