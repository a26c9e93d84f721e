package packonline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/internal/testscale"
	"loaderd/packonline/similarity"
)

// TestIndexedPool_MatchesSlice compares a stock with a slice of the buffered pieces, for random sequences of adding,
// taking and putting back.
func TestIndexedPool_MatchesSlice(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 8))
		longest := 1 + r.Int32N(300)
		s := newIndexedPool(longest, 3)
		var want []bufferedPiece
		for step := range int64(300) {
			if r.IntN(3) > 0 {
				w := bufferedPiece{uint64(step), step, 0, 1 + r.Int32N(longest)}
				s.add(w, int(w.length)%3)
				want = append(want, w)
			}
			// Several are taken one after the other, and all but the first few are put back.
			var taken []int32
			left := slices.Clone(want)
			keep, kept := r.IntN(2), left
			for range r.IntN(4) {
				n := s.longestAtMost(1 + r.Int32N(longest))
				if n == none {
					continue
				}
				k := slices.IndexFunc(left, func(w bufferedPiece) bool { return w.length == n })
				i := s.takeOldest(n)
				if s.items[i].bufferedPiece != left[k] {
					t.Fatalf("seed %d: took %+v, want %+v", seed, s.items[i].bufferedPiece, left[k])
				}
				left = slices.Delete(left, k, k+1)
				taken = append(taken, i)
				checkStock(t, s, left)
				if len(taken) <= keep {
					kept = slices.Clone(left)
				}
			}
			for len(taken) > keep {
				s.putBack(taken[len(taken)-1])
				taken = taken[:len(taken)-1]
			}
			for _, i := range taken {
				s.freeItem(i)
			}
			if keep == 0 {
				kept = want
			}
			want = slices.Clone(kept)
			checkStock(t, s, want)
		}
	}
}

// checkStock compares every query of a stock with the pieces that it has.
func checkStock(t *testing.T, s *indexedPool, want []bufferedPiece) {
	t.Helper()
	if have := s.listPieces(); !slices.Equal(have, want) || s.pieces != len(want) {
		t.Fatalf("stock has %d pieces %v, want %v", s.pieces, have, want)
	}
	var tokens int64
	var byClass [3][]bufferedPiece
	for _, w := range want {
		tokens += int64(w.length)
		byClass[w.length%3] = append(byClass[w.length%3], w)
	}
	for class := range s.byClass {
		var have []bufferedPiece
		l := &s.byClass[class]
		for i := l.first; i != none; i = s.newerItem(l, i) {
			have = append(have, s.items[i].bufferedPiece)
		}
		if !slices.Equal(have, byClass[class]) {
			t.Fatalf("class %d has %v, want %v", class, have, byClass[class])
		}
	}
	if s.tokens != tokens {
		t.Fatalf("stock has %d tokens, want %d", s.tokens, tokens)
	}
	for n := int32(-1); n <= int32(len(s.queues)); n++ {
		most, has := int32(none), false
		for _, w := range want {
			if w.length <= n {
				most = max(most, w.length)
			}
			has = has || w.length == n
		}
		if s.longestAtMost(n) != most || s.hasLength(n) != has {
			t.Fatalf("of %v: atMost(%d) = %d, want %d; has is %v", want, n, s.longestAtMost(n), most, s.hasLength(n))
		}
	}
}

// TestIndexedPool_PairSearchMatchesExhaustive compares the search for a sum of two lengths with an exhaustive search.
func TestIndexedPool_PairSearchMatchesExhaustive(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 9))
		longest := 1 + r.Int32N(700)
		s := newIndexedPool(longest, 1)
		s.credit = math.MaxInt
		counts := make([]int, longest+1)
		for i := range 1 + r.Int64N(60) {
			n := 1 + r.Int32N(longest)
			s.add(bufferedPiece{uint64(i), i, 0, n}, 0)
			counts[n]++
		}
		for range 200 {
			sum := 1 + r.Int32N(2*longest+10)
			least, most := r.Int32N(longest)-1, r.Int32N(longest+10)
			want := int32(none)
			for n := max(least, 1); n <= min(most, sum/2); n++ {
				if other := sum - n; other <= longest && counts[n] > 0 && counts[other] > 0 && (other != n || counts[n] > 1) {
					want = n
				}
			}
			if have := s.findPair(sum, least, most); have != want {
				t.Fatalf("seed %d: two(%d, %d, %d) = %d, want %d", seed, sum, least, most, have, want)
			}
		}
	}
}

// TestBucket_WorkIsBounded counts the cost of searches (invariant 5 of bucket and of splice, which takes a piece for
// every query). It uses lengths that never fill a row, lengths that fill one only with many pieces, and bounds that
// force a search for every document.
func TestBucket_WorkIsBounded(t *testing.T) {
	documents := testscale.Of(500, 1500)
	// related to a third of the others: every query of splice has results, and every result is queried
	kinds := []similarity.Hint{{Terms: []uint32{1<<8 | 255}}, {Terms: []uint32{2<<8 | 255}}, {Terms: []uint32{3<<8 | 255}}}
	draw := func(next func(r *rand.Rand) int32) []int32 {
		r := rand.New(rand.NewPCG(1, 5))
		out := make([]int32, documents)
		for i := range out {
			out[i] = next(r)
		}
		return out
	}
	inputs := map[string][]int32{
		"1,500":      draw(func(*rand.Rand) int32 { return 1500 }),
		"1":          draw(func(*rand.Rand) int32 { return 1 }),
		"2,047":      draw(func(*rand.Rand) int32 { return 2047 }),
		"half rows":  draw(func(r *rand.Rand) int32 { return 1025 + r.Int32N(1000) }),
		"threes":     draw(func(r *rand.Rand) int32 { return 3 + 3*r.Int32N(600) }),
		"two kinds":  draw(func(r *rand.Rand) int32 { return []int32{3, 4001}[r.IntN(2)] }),
		"sparse":     draw(func(r *rand.Rand) int32 { return 64*r.Int32N(200) + 1 }),
		"log-normal": lengths.LogNormal(documents, 1),
	}
	for name, in := range inputs {
		for _, buckets := range [][]int{{2048}, {1024, 2048, 4096, 8192, 16384}, {1000, 131072}, {2, 1 << 20}} {
			for _, pool := range testscale.Of([]int{1, 64}, []int{1, 64, 1000}) {
				for _, maxAge := range testscale.Of([]int{0, 100}, []int{0, 1, 500}) {
					c := Config{Method: "splice", Buckets: buckets, Atom: 1, Pool: pool, MaxAge: maxAge,
						Splice: Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096}}
					b, s := newBucket(c).(*bucket), newSplice(c).(*splice)
					c.MaxDocumentsPerRow = 3
					bounded := newBucket(c).(*bucket)
					for method, p := range map[string]struct {
						Packer
						stock *indexedPool
						most  int
					}{"bucket": {b, b.pool, 600}, "bounded bucket": {bounded, bounded.pool, 1000}, "splice": {s, s.pool, 4500}} {
						var out Rows
						for i, n := range in {
							p.Add(Doc{Seq: uint64(i), Length: n, Hint: &kinds[i%len(kinds)]}, &out)
							out.Reset()
						}
						if work := p.stock.work / documents; work > p.most {
							t.Errorf("%s, lengths %s, rows %v, pool %d, max age %d: a document costs %d", method, name, buckets, pool,
								maxAge, work)
						}
					}
				}
			}
		}
	}
}

// TestBucket_HostileLengthsCostAtMostCredit checks that for all lengths, searches cost at most the credit of the
// documents, plus one row that is tried when the credit is used up.
func TestBucket_HostileLengthsCostAtMostCredit(t *testing.T) {
	for _, buckets := range [][]int{{2048}, {8192}, {2048, 3072}, {1024, 2048, 4096, 8192, 16384}} {
		for _, x := range []struct{ pool, maxAge int }{{64, 0}, {256, 300}} {
			documents := 300 + 2*x.pool
			for _, in := range lengths.HardCases(documents, buckets) {
				p := newBucket(Config{Method: "bucket", Buckets: buckets, Atom: 1, Pool: x.pool, MaxAge: x.maxAge}).(*bucket)
				p.pool.credit = 0 // the savings are spent
				var out Rows
				worth, owed := 0, 0
				for i, n := range in.Lengths {
					p.Add(Doc{Seq: uint64(i), Length: n}, &out)
					out.Reset()
					worth += creditDocument + int(min(n, p.longest))/creditTokens + moveCost
					owed = max(owed, -p.pool.credit)
				}
				name := fmt.Sprintf("rows %v, pool %d, max age %d, lengths %s", buckets, x.pool, x.maxAge, in.Name)
				row := 2*creditPadding + 2*moveCost*x.pool*len(buckets)
				if owed > row {
					t.Errorf("%s: %d are owed, at most %d should be", name, owed, row)
				}
				if p.pool.work > worth+row {
					t.Errorf("%s: a document costs %d and brings %d", name, p.pool.work/documents, worth/documents)
				}
			}
		}
	}
}
