// Splice measures packing related documents: how related neighbours are, how bursty rows, what is padded, and how fast it is, against
// example packing on the same documents.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"loaderd/internal/relatedness"
	"loaderd/packonline"
	"loaderd/packonline/related"
	"loaderd/tokenizer"
)

func main() {
	length := flag.Int("length", 8192, "")
	pools := flag.Int("pool", 4096, "")
	most := flag.Int64("bytes", 60<<20, "")
	names := flag.String("names", "bucket,bm25,trim,bm25+path,bm25-near,repo", "")
	flag.Parse()
	m, err := tokenizer.Load("gpt2", tokenizer.Options{})
	check(err)
	docs, err := sections(m, flag.Args(), *most)
	check(err)
	var tokens int64
	hints := make([]*related.Hint, len(docs))
	var maker related.TermMaker
	start := time.Now()
	for i, d := range docs {
		tokens += int64(len(d.IDs))
		hints[i] = &related.Hint{Terms: maker.Terms(d.IDs), Path: related.Path(d.Path)}
	}
	fmt.Printf("%d documents, %d tokens, hints in %v\n", len(docs), tokens, time.Since(start))
	for _, name := range strings.Split(*names, ",") {
		c := packonline.Config{Method: "splice", Buckets: []int{*length}, Atom: 1, Pool: *pools,
			Splice: packonline.Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096, Dimension: 16}}
		switch name {
		case "bucket":
			c.Method, c.Splice = "bucket", packonline.Splice{}
		case "trim":
			c.Splice.Fill = "trim"
		case "repo":
			c.Splice.Retriever = "repo"
		case "bm25+path":
			c.Splice.PathBonus = 50
		case "bm25-near":
			c.Splice.NearDuplicate = 75
		}
		p, err := packonline.New(c)
		check(err)
		var out packonline.Rows
		var rows [][]relatedness.Piece
		oldest := uint32(0)
		take := func() {
			for i := range out.Len() {
				_, pieces, ages := out.Row(i)
				var row []relatedness.Piece
				for k, x := range pieces {
					row = append(row, relatedness.Piece{Document: int(x.Doc), Start: x.Start, Length: x.Length})
					oldest = max(oldest, ages[k])
				}
				rows = append(rows, row)
			}
			out.Reset()
		}
		var packing time.Duration
		start := time.Now()
		for i := range docs {
			p.Add(packonline.Doc{Seq: uint64(i), Length: int32(len(docs[i].IDs)), Hint: hints[i]}, &out)
			if i%1024 == 0 {
				packing += time.Since(start)
				take()
				start = time.Now()
			}
		}
		packing += time.Since(start)
		take()
		drained := len(rows)
		before := p.Counts()
		p.Flush(&out)
		take()
		n := p.Counts()
		f := relatedness.Measure(docs, rows[:drained])
		fmt.Printf("%-10s cos %.3f folder %.3f file %.3f dup %.3f zipf %.3f (%.3f) zeta %.3f pad %.4f%%/%.4f%% dropped %.2f%% trunc %.2f%% oldest %d %.0f docs/s rows %d\n", name,
			f.NeighbourCosine, f.SameFolder, f.SameFile, f.NearDuplicates, f.ZipfMLE.Mean, f.ZipfMLE.Std, f.ZipfZeta.Mean,
			100*float64(before.Padding)/float64(before.Slots), 100*float64(n.Padding)/float64(n.Slots), 100*float64(n.Dropped)/float64(n.Tokens),
			100*float64(n.Truncated)/float64(n.Documents), oldest, float64(len(docs))/packing.Seconds(), n.Rows)
		if x, ok := p.(interface{ Detail() map[string]int64 }); ok {
			fmt.Println("   ", x.Detail())
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
