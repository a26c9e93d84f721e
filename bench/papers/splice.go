package main

import (
	"fmt"
	"io"
	"slices"

	"loaderd/bench/page"
	"loaderd/bench/record"
)

// The tables of SPLICE are printed from records of make bench-splice, because measuring takes longer than all other
// tables and needs other libraries.
var splice = []table{
	spliceTable("splice-corpus", "SPLICE, the corpus", false, printSpliceCorpus),
	spliceTable("splice-4096", "SPLICE, related documents in one row; pool of 4,096", false, printPackings(4096)),
	spliceTable("splice-16384", "SPLICE, related documents in one row; pool of 16,384", false, printPackings(16384)),
	spliceTable("splice-speed", "SPLICE, documents packed per second of processor time", true, printSpliceSpeed),
	spliceTable("splice-queries", "SPLICE, queries per second compared with bm25s and faiss", true, printQueries),
}

func spliceTable(name, title string, timed bool, print func(*report, io.Writer) error) table {
	return table{name: name, title: title, command: "make bench-splice", timed: timed, print: print}
}

func spliceRecord(p *report) (r record.Splice, err error) {
	return r, record.Read(p.PathNextTo("splice.json"), &r)
}

func printSpliceCorpus(p *report, out io.Writer) error {
	r, err := spliceRecord(p)
	if err != nil {
		return err
	}
	var m page.Markdown
	m.Row("folders", "documents", "tokens (gpt2)", "tokens per document", "row", "SHA-256 of ids and paths")
	m.Row(fmt.Sprint(r.Corpus.Folders), fmt.Sprint(r.Corpus.Documents), fmt.Sprint(r.Corpus.Tokens),
		fmt.Sprint(r.Corpus.Tokens/int64(r.Corpus.Documents)), fmt.Sprint(r.Row), r.Corpus.SHA256[:16])
	return m.Print(out)
}

// printPackings prints the packings with one pool size. The others are compared with the first one, example packing.
func printPackings(pool int) func(*report, io.Writer) error {
	return func(p *report, out io.Writer) error {
		r, err := spliceRecord(p)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.Pools, func(x record.Pool) bool { return x.Pool == pool })
		if i < 0 {
			return fmt.Errorf("the record has no pool of %d", pool)
		}
		var m page.Markdown
		m.Row("", "neighbour cosine", "ratio to concat", "same folder", "same file", "near-duplicates", "exponent, MLE",
			"exponent, zeta", "padding before the flush", "padding", "documents cut", "tokens dropped", "oldest document")
		concat := r.Pools[i].Packings[0].Related.NeighbourCosine
		for _, x := range r.Pools[i].Packings {
			f := x.Related
			m.Row(x.Variant, fmt.Sprintf("%.3f", f.NeighbourCosine), fmt.Sprintf("%.1f", f.NeighbourCosine/concat),
				fmt.Sprintf("%.1f %%", 100*f.SameFolder), fmt.Sprintf("%.1f %%", 100*f.SameFile),
				fmt.Sprintf("%.1f %%", 100*f.NearDuplicates),
				fmt.Sprintf("%.3f (%.3f)", f.ZipfMLE.Mean, f.ZipfMLE.Std),
				fmt.Sprintf("%.3f (%.3f)", f.ZipfZeta.Mean, f.ZipfZeta.Std),
				percent(100*x.PaddingBeforeFlush), percent(100*x.Padding), percent(100*x.Truncated), percent(100*x.Dropped),
				fmt.Sprint(x.Oldest))
		}
		return m.Print(out)
	}
}

func printSpliceSpeed(p *report, out io.Writer) error {
	r, err := spliceRecord(p)
	if err != nil {
		return err
	}
	var m page.Markdown
	m.Row("pool", "", "documents/s", "ratio to bucket")
	for _, pool := range r.Pools {
		i := slices.IndexFunc(pool.Packings, func(x record.Packing) bool { return x.Variant == "bucket" })
		if i < 0 {
			return fmt.Errorf("the record has no packing by bucket, pool of %d", pool.Pool)
		}
		for _, x := range pool.Packings {
			m.Row(fmt.Sprint(pool.Pool), x.Variant, perSecond(x.PerSecond), times(x.PerSecond/pool.Packings[i].PerSecond))
		}
	}
	return m.Print(out, r.Machine)
}

func printQueries(p *report, out io.Writer) error {
	var r struct {
		Machine record.Machine `json:"machine"`
		Queries []record.Query `json:"queries"`
	}
	if err := record.Read(p.PathNextTo("splice-queries.json"), &r); err != nil {
		return err
	}
	var m page.Markdown
	m.Row("pool", "library", "queries/s", "same file", "loaderd's retriever", "queries/s", "same file", "ratio")
	for _, q := range r.Queries {
		m.Row(fmt.Sprint(q.Pool), q.Library, perSecond(q.Theirs.PerSecond), fmt.Sprintf("%.1f %%", 100*q.Theirs.SameFile),
			q.Ours.Retriever, perSecond(q.Ours.PerSecond), fmt.Sprintf("%.1f %%", 100*q.Ours.SameFile),
			times(q.Ours.PerSecond/q.Theirs.PerSecond))
	}
	return m.Print(out, r.Machine)
}
