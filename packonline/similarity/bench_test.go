package similarity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"loaderd/packonline/similarity"
)

// BenchmarkTop queries a full pool of documents of 600 tokens. Token frequencies are as in text, and a part of the
// tokens belongs to one of many subjects.
func BenchmarkTop(b *testing.B) {
	for _, retriever := range similarity.Retrievers {
		for _, pool := range []int32{4096, 16384} {
			b.Run(fmt.Sprintf("%s/%d", retriever, pool), func(b *testing.B) {
				c := similarity.Config{Retriever: retriever, Postings: 4096, Dimension: 384}
				r := rand.New(rand.NewPCG(1, 1))
				common := rand.NewZipf(r, 1.2, 10, 50_000)
				m, x := similarity.NewHintMaker(c), similarity.New(c)
				for i := range pool {
					subject := r.Int32N(pool / 20)
					ids := make([]int32, 600)
					for k := range ids {
						ids[k] = int32(common.Uint64())
						if k%6 == 0 {
							ids[k] = (subject*7919 + r.Int32N(60)*r.Int32N(60)) % 50_000
						}
					}
					v := make([]float32, c.Dimension)
					near := rand.New(rand.NewPCG(uint64(subject), 2))
					for k := range v {
						v[k] = float32(near.NormFloat64() + r.NormFloat64())
					}
					vector, err := similarity.NormalizeVector(v, c.Dimension)
					if err != nil {
						b.Fatal(err)
					}
					x.Add(i, similarity.Entry{Seq: uint64(i), Length: 600,
						Hint: m.Hint("", ids, fmt.Sprintf("src/%d/%d", subject/10, subject), vector)})
				}
				var top []similarity.Candidate
				asking := int32(0)
				for b.Loop() {
					top = x.Top(asking, 1, math.MaxInt32, top)
					asking = (asking + 1) % pool
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "questions/s")
			})
		}
	}
}
