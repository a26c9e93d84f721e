package packonline

import (
	"math/rand/v2"
	"testing"

	"loaderd/internal/lengths"
)

// TestPacker_WorkIsBounded counts the pieces that passes visit (invariant 5), for lengths that never fill a row and
// bounds that force a pass for every document.
func TestPacker_WorkIsBounded(t *testing.T) {
	const documents = 2_000
	constant := func(n int32) []int32 {
		out := make([]int32, documents)
		for i := range out {
			out[i] = n
		}
		return out
	}
	r := rand.New(rand.NewPCG(1, 5))
	long := make([]int32, documents)
	for i := range long {
		long[i] = 1025 + r.Int32N(1000)
	}
	for name, in := range map[string][]int32{
		"1,500":      constant(1500),
		"1":          constant(1),
		"one row":    constant(2048),
		"2,047":      constant(2047),
		"long":       long,
		"log-normal": lengths.LogNormal(documents, 1),
	} {
		for _, pool := range []int{1, 2, 7, 64, 1000} {
			for _, maxAge := range []int{0, 1, 31, 32, 500, 4096} {
				c := Config{Buckets: []int{2048}, Atom: 1, Pool: pool, MaxAge: maxAge, Overlap: 0.3, Extra: 50}
				bfd, slid := newBFD(c).(*binPacker), newSeamless(c).(*seamless)
				for _, p := range []struct {
					method string
					Packer
					bins *bins
				}{{"bfd", bfd, bfd.bins}, {"seamless", slid, slid.bins}} {
					var out Rows
					visits := 0
					for i, n := range in {
						p.bins.all = p.bins.all[:0]
						p.Add(Doc{Seq: uint64(i), Length: n}, &out)
						out.Reset()
						if len(p.bins.all) > 0 {
							visits += len(p.bins.order)
						}
					}
					// 8 per piece for room, and one more because the piece that does not fit is visited too; 32 for age.
					most := roomShare + 1
					if maxAge > 0 {
						most += ageShare
					}
					if visits > most*documents {
						t.Errorf("%s, lengths %s, pool %d, max age %d: %.1f visits a document", p.method, name, pool, maxAge,
							float64(visits)/documents)
					}
				}
			}
		}
	}
}
