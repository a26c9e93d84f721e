package packonline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"loaderd/internal/lengths"
	"loaderd/packonline"
	"loaderd/packonline/related"
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

// BenchmarkSplice_OneFolder packs 20,000 documents of twelve subjects that have the paths of files of one folder. bm25,
// which does not read the paths, is the baseline of repo.
func BenchmarkSplice_OneFolder(b *testing.B) {
	var m related.TermMaker
	r := rand.New(rand.NewPCG(1, 1))
	docs := make([]packonline.Doc, 20_000)
	for i, n := range lengths.LogNormal(len(docs), 1) {
		subject := r.Int32N(12)
		ids := make([]int32, 200)
		for k := range ids {
			ids[k] = 200*subject + r.Int32N(300)*r.Int32N(300)/300
		}
		hint := &related.Hint{Terms: m.Terms(ids), Path: related.Path(fmt.Sprintf("src/folder/%d.go", i))}
		docs[i] = packonline.Doc{Seq: uint64(i), Length: n, Hint: hint}
	}
	for _, row := range []int{2048, 8192} {
		for _, pool := range []int{1024, 4096, 16384} {
			for _, retriever := range []string{"bm25", "repo"} {
				b.Run(fmt.Sprintf("%s/row=%d/pool=%d", retriever, row, pool), func(b *testing.B) {
					c := config("splice", row, pool, 4*pool)
					c.Splice.Retriever = retriever
					for b.Loop() {
						p := newPacker(b, c)
						var out packonline.Rows
						for _, d := range docs {
							p.Add(d, &out)
							out.Reset()
						}
						p.Flush(&out)
					}
					b.ReportMetric(float64(b.N)*float64(len(docs))/b.Elapsed().Seconds(), "docs/s")
				})
			}
		}
	}
}
