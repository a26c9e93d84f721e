package main

import (
	"fmt"
	"io"
	"time"

	"loaderd/bench/record"
	"loaderd/internal/relatedness"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// corpus is documents with their retrieval hints.
type corpus struct {
	documents []relatedness.Document
	hints     map[string][]*similarity.Hint // by retriever
	tokens    int64
}

// variant is a packing configuration.
type variant struct {
	name   string
	change func(*packonline.Config)
}

var variants = []variant{
	{"concat (example packing)", func(c *packonline.Config) { c.Method = "concat" }},
	{"bucket", func(c *packonline.Config) { c.Method = "bucket" }},
	{"splice, trim (the paper's)", func(c *packonline.Config) { c.Splice.Fill = "trim" }},
	{"splice", func(*packonline.Config) {}},
	{"splice, path_bonus 50", func(c *packonline.Config) { c.Splice.PathBonus = 50 }},
	{"splice, near_duplicate 75", func(c *packonline.Config) { c.Splice.NearDuplicate = 75 }},
	{"splice, k 3", func(c *packonline.Config) { c.Splice.K = 3 }},
	{"splice, repo", func(c *packonline.Config) { c.Splice.Retriever = "repo" }},
	{"splice, dense", func(c *packonline.Config) { c.Splice.Retriever = "dense" }},
}

// run is the result of a variant. Relatedness is of the rows before the flush, which packs by length at the end.
type run struct {
	before, after packonline.Counts // of the flush
	oldest        uint32
	documents     float64 // packed per second of processor time
	rows          [][]relatedness.Piece
	emitted       int // rows before the flush
}

// pack packs the corpus.
func (c *corpus) pack(config packonline.Config) (*run, error) {
	p, err := packonline.New(config)
	if err != nil {
		return nil, err
	}
	var hints []*similarity.Hint
	if r := config.SimilarityConfig(); r != nil {
		hints = c.hints[r.Retriever]
	}
	out := &run{}
	var rows packonline.Rows
	take := func() {
		for i := range rows.Len() {
			_, pieces, ages := rows.Row(i)
			row := make([]relatedness.Piece, len(pieces))
			for k, x := range pieces {
				row[k] = relatedness.Piece{Document: int(x.Doc), Start: x.Start, Length: x.Length}
				out.oldest = max(out.oldest, ages[k])
			}
			out.rows = append(out.rows, row)
		}
		rows.Reset()
	}
	var packing time.Duration
	// Only the time with a full pool counts, because filling the pool has no cost.
	timed := 0
	for next := 0; next < len(c.documents); {
		start := record.ProcessorTime()
		full := p.Pending().Pieces >= config.Pool-1
		from := next
		for end := min(next+1024, len(c.documents)); next < end; next++ {
			d := packonline.Doc{Seq: uint64(next), Length: int32(len(c.documents[next].IDs))}
			if hints != nil {
				d.Hint = hints[next]
			}
			p.Add(d, &rows)
		}
		if full || config.Method == "concat" {
			packing += record.ProcessorTime() - start
			timed += next - from
		}
		take()
	}
	out.before = p.Counts()
	out.emitted = len(out.rows)
	p.Flush(&rows)
	take()
	out.after = p.Counts()
	if timed > 0 { // otherwise the pool was never full
		out.documents = float64(timed) / packing.Seconds()
	}
	return out, nil
}

func base(length, pool int) packonline.Config {
	return packonline.Config{Method: "splice", Buckets: []int{length}, Atom: 1, Pool: pool, MaxAge: 4 * pool,
		Splice: packonline.Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096,
			Dimension: dimension}}
}

// table packs the corpus with every variant, or only one, and prints each line when it is complete.
func (c *corpus) table(w io.Writer, length, pool int, only string) (record.Pool, error) {
	out := record.Pool{Pool: pool, MaxAge: base(length, pool).MaxAge}
	fmt.Fprintf(w, "\nRows of %d tokens, pool of %d\n\n", length, pool)
	fmt.Fprintln(w, "| | neighbour cosine | same folder | same file | near-duplicates | exponent, MLE | exponent, zeta "+
		"| padding before / with the flush | documents cut | dropped | oldest | documents/s |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, v := range variants {
		if only != "" && v.name != only {
			continue
		}
		config := base(length, pool)
		v.change(&config)
		r, err := c.pack(config)
		if err != nil {
			return record.Pool{}, fmt.Errorf("%s: %w", v.name, err)
		}
		x := record.Packing{Variant: v.name, Related: relatedness.Measure(c.documents, r.rows[:r.emitted]),
			PaddingBeforeFlush: share(r.before.Padding, r.before.Slots), Padding: share(r.after.Padding, r.after.Slots),
			Truncated: share(r.after.Truncated, r.after.Documents), Dropped: share(r.after.Dropped, r.after.Tokens),
			Oldest: r.oldest, PerSecond: r.documents}
		out.Packings = append(out.Packings, x)
		f := x.Related
		fmt.Fprintf(w, "| %s | %.3f | %.1f %% | %.1f %% | %.1f %% | %.3f (%.3f) | %.3f (%.3f) | %.4f / %.4f %% | %.2f %% "+
			"| %.2f %% | %d | %.1fk |\n", v.name,
			f.NeighbourCosine, 100*f.SameFolder, 100*f.SameFile, 100*f.NearDuplicates, f.ZipfMLE.Mean, f.ZipfMLE.Std,
			f.ZipfZeta.Mean, f.ZipfZeta.Std,
			100*x.PaddingBeforeFlush, 100*x.Padding, 100*x.Truncated, 100*x.Dropped, x.Oldest, x.PerSecond/1000)
	}
	return out, nil
}

func share(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }
