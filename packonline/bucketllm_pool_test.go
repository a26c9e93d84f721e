package packonline

import "testing"

// TestSortedPool_PairSearchIsBounded fills a pool with all lengths of 3n+1. The best sum below 30,000 is 29,999, and
// the search for the last token would try all of the many longer pieces without success. One pair makes 30,000. It is
// found if it is within maxPairSteps lengths of half of the requested sum.
func TestSortedPool_PairSearchIsBounded(t *testing.T) {
	const least, most = 29_900, 30_000
	for _, x := range []struct {
		longer int32 // longer piece of the pair that makes 30,000
		want   int32
	}{
		{least/2 + 1 + 3*(maxPairSteps-10), most},
		{least/2 + 1 + 3*(maxPairSteps+10), most - 1},
	} {
		s := newSortedPool(1 << 16)
		for n := int32(301); n < most; n++ {
			if n%3 == 1 || n == x.longer || n == most-x.longer {
				s.add(bufferedPiece{doc: uint64(n), arrived: int64(n), length: n})
			}
		}
		i, j := s.bestPair(least, most)
		if i == none || j == none || i == j || s.pieceAt(i).length+s.pieceAt(j).length != x.want {
			t.Errorf("with a pair of %d and %d: places %d and %d, want a sum of %d", x.longer, most-x.longer, i, j, x.want)
		}
	}
}
