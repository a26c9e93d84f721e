package packonline

import (
	"math/rand/v2"
	"testing"

	"loaderd/packonline/similarity"
)

// TestSplice_QueriesAreBounded counts the queries that had a result (invariant 5). It uses lengths that never or
// rarely fill a row, and documents that are related to few others, to several and to all.
func TestSplice_QueriesAreBounded(t *testing.T) {
	const documents = 4000
	for name, length := range map[string]func(r *rand.Rand) int32{
		"one":         func(*rand.Rand) int32 { return 30 },
		"two":         func(r *rand.Rand) int32 { return []int32{300, 251}[r.IntN(2)] },
		"even":        func(r *rand.Rand) int32 { return 2 + 2*r.Int32N(100) },
		"long, short": func(r *rand.Rand) int32 { return []int32{2, 2, 2, 2, 999}[r.IntN(5)] },
		"half rows":   func(r *rand.Rand) int32 { return 520 + r.Int32N(400) },
		"any":         func(r *rand.Rand) int32 { return 1 + r.Int32N(200) },
	} {
		for _, subjects := range []int{1, 12, 900} {
			for _, buckets := range [][]int{{1021}, {101, 211, 1021}} {
				for _, maxAge := range []int{0, 60} {
					c := Config{Method: "splice", Buckets: buckets, Atom: 1, Pool: 500, MaxAge: maxAge,
						Splice: Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096}}
					p := newSplice(c).(*splice)
					r := rand.New(rand.NewPCG(3, 5))
					var out Rows
					pieces, rows := 0, 0
					for i := range documents {
						p.Add(Doc{Seq: uint64(i), Length: length(r),
							Hint: &similarity.Hint{Terms: []uint32{uint32(r.IntN(subjects))<<8 | 255}}}, &out)
						pieces += len(out.pieces)
						rows += out.Len()
						out.Reset()
					}
					if most := int64(2*pieces + documents/budgetUnit + 2*maxQueryBudget/budgetUnit +
						buckets[len(buckets)-1]); p.queries > most {
						t.Errorf("lengths %s, %d subjects, rows of %v, max age %d: %d questions for %d pieces in %d rows, at most %d "+
							"may be", name, subjects, buckets, maxAge, p.queries, pieces, rows, most)
					}
				}
			}
		}
	}
}
