package packonline_test

import (
	"testing"
	"time"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

// BenchmarkSplice packs 20,000 documents of twelve subjects into rows of 2,048. Bucket packs the same lengths beside it: "x-bucket" is
// the speed as a multiple of that.
func BenchmarkSplice(b *testing.B) {
	in := lengths.LogNormal(20_000, 1)
	docs := make([]packonline.Doc, len(in))
	for i, n := range in {
		docs[i] = packonline.Doc{Seq: uint64(i), Length: n, Hint: makeHint(uint64(i))}
	}
	pack := func(c packonline.Config) packonline.Counts {
		p := newPacker(b, c)
		var out packonline.Rows
		for _, d := range docs {
			p.Add(d, &out)
			out.Reset()
		}
		p.Flush(&out)
		return p.Counts()
	}
	start := time.Now()
	pack(bucketConfig([]int{2048}, 1024, 16384))
	bucket := time.Since(start)
	for _, retriever := range []string{"bm25", "repo", "dense"} {
		b.Run(retriever, func(b *testing.B) {
			c := config("splice", 2048, 1024, 16384)
			c.Splice.Retriever = retriever
			var counts packonline.Counts
			for b.Loop() {
				counts = pack(c)
			}
			b.ReportMetric(float64(b.N)*float64(len(docs))/b.Elapsed().Seconds(), "docs/s")
			b.ReportMetric(100*float64(counts.Padding)/float64(counts.Slots), "%pad")
			b.ReportMetric(float64(bucket)*float64(b.N)/float64(b.Elapsed()), "x-bucket")
		})
	}
}
