package packonline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"loaderd/internal/lengths"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// BenchmarkSplice packs 20,000 documents of twelve subjects into rows of 2,048. The baseline is bucket with the same
// lengths; "x-bucket" is the speed relative to it.
func BenchmarkSplice(b *testing.B) {
	in := lengths.LogNormal(20_000, 1)
	docs := make([]packonline.Doc, len(in))
	for i, n := range in {
		docs[i] = packonline.Doc{Seq: uint64(i), Length: n, Hint: makeHint(uint64(i))}
	}
	start := time.Now()
	packAll(b, bucketConfig([]int{2048}, 1024, 16384), docs)
	bucket := time.Since(start)
	for _, retriever := range []string{"bm25", "repo", "dense"} {
		b.Run(retriever, func(b *testing.B) {
			c := config("splice", 2048, 1024, 16384)
			c.Splice.Retriever = retriever
			var counts packonline.Counts
			for b.Loop() {
				counts = packAll(b, c, docs)
			}
			b.ReportMetric(float64(b.N)*float64(len(docs))/b.Elapsed().Seconds(), "docs/s")
			b.ReportMetric(100*float64(counts.Padding)/float64(counts.Slots), "%pad")
			b.ReportMetric(float64(bucket)*float64(b.N)/float64(b.Elapsed()), "x-bucket")
		})
	}
}

// BenchmarkSplice_Dense packs 10,000 documents of 300 subjects by embeddings from a pool of 4,096.
func BenchmarkSplice_Dense(b *testing.B) {
	for _, dimension := range []int{384, 768} {
		r := rand.New(rand.NewPCG(1, 1))
		draw := func(from []float32) []float32 {
			v := make([]float32, dimension)
			for k := range v {
				if from != nil {
					v[k] = from[k]
				}
				v[k] += float32(r.NormFloat64())
			}
			return v
		}
		subjects := make([][]float32, 300)
		for i := range subjects {
			subjects[i] = draw(nil)
		}
		docs := make([]packonline.Doc, 10_000)
		for i, n := range lengths.LogNormal(len(docs), 1) {
			v, err := similarity.NormalizeVector(draw(subjects[r.IntN(len(subjects))]), dimension)
			if err != nil {
				b.Fatal(err)
			}
			docs[i] = packonline.Doc{Seq: uint64(i), Length: n, Hint: &similarity.Hint{Vector: v}}
		}
		for _, row := range []int{2048, 8192} {
			b.Run(fmt.Sprintf("dimension=%d/row=%d", dimension, row), func(b *testing.B) {
				c := config("splice", row, 4096, 16384)
				c.Splice.Retriever, c.Splice.Dimension = "dense", dimension
				measure(b, c, docs)
			})
		}
	}
}

// packAll packs documents, including the final flush.
func packAll(b *testing.B, c packonline.Config, docs []packonline.Doc) packonline.Counts {
	p := newPacker(b, c)
	var out packonline.Rows
	for _, d := range docs {
		p.Add(d, &out)
		out.Reset()
	}
	p.Flush(&out)
	return p.Counts()
}

// measure reports the number of packed documents per second.
func measure(b *testing.B, c packonline.Config, docs []packonline.Doc) {
	for b.Loop() {
		packAll(b, c, docs)
	}
	b.ReportMetric(float64(b.N)*float64(len(docs))/b.Elapsed().Seconds(), "docs/s")
}

// BenchmarkSplice_OneFolder packs 20,000 documents of twelve subjects whose paths are files of one folder. bm25,
// which does not read the paths, is the baseline of repo.
func BenchmarkSplice_OneFolder(b *testing.B) {
	var m similarity.TermMaker
	r := rand.New(rand.NewPCG(1, 1))
	docs := make([]packonline.Doc, 20_000)
	for i, n := range lengths.LogNormal(len(docs), 1) {
		subject := r.Int32N(12)
		ids := make([]int32, 200)
		for k := range ids {
			ids[k] = 200*subject + r.Int32N(300)*r.Int32N(300)/300
		}
		hint := &similarity.Hint{Terms: m.Terms(ids), Path: similarity.PathHashes(fmt.Sprintf("src/folder/%d.go", i))}
		docs[i] = packonline.Doc{Seq: uint64(i), Length: n, Hint: hint}
	}
	for _, row := range []int{2048, 8192} {
		for _, pool := range []int{1024, 4096, 16384} {
			for _, retriever := range []string{"bm25", "repo"} {
				b.Run(fmt.Sprintf("%s/row=%d/pool=%d", retriever, row, pool), func(b *testing.B) {
					c := config("splice", row, pool, 4*pool)
					c.Splice.Retriever = retriever
					measure(b, c, docs)
				})
			}
		}
	}
}
