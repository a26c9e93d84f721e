package main

import (
	"context"
	"fmt"
	"io"

	"loaderd/bench/page"
	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

var bucketMethod = []table{
	{name: "bucket-single", title: "bucket, one row length: padding compared with bfd; 1M documents, pool 4096, max " +
		"age 16384",
		print: printSingle,
		rows: []string{
			"loaderd gen-lengths --dist fineweb-edu -n 1000000 | " +
				"loaderd simulate --method bucket --length 2048 --pool 4096 --max-age 16384",
		}},
	{name: "beyond-bucket",
		title: "bucket, rows of 1024 to 16384: pool and max age, and the lower bound; 1M documents",
		print: printBounds, rows: []string{fmt.Sprintf(beyondCommand, million, "bucket", 256, 1024)}},
}

// bucketBounds are the bounds of pool and age in the tables of bucket with several row lengths.
var bucketBounds = []struct{ pool, maxAge int }{
	{256, 1024}, {1024, 2048}, {1024, 4096}, {4096, 8192}, {4096, 16384}, {16384, 32768}, {65536, 131072},
}

// The defaults of packing.pool, packing.holdback and packing.max_age, and the number of lists of documents for a mean
// or a maximum.
const (
	defaultPool = 4096
	defaultHold = 100
	defaultAge  = 16384
	draws       = 10
)

// printSingle compares one row length at a time with best fit in descending order, online and offline.
func printSingle(_ *report, out io.Writer) error {
	var m page.Markdown
	m.Row("row length", "bucket, tokens of padding", "lower bound", "bucket",
		fmt.Sprintf("bucket, maximum of %d draws", draws), "bfd", "bfd offline", "oldest document")
	drawn := make([][]int32, draws)
	d, _ := lengths.ByName("fineweb-edu")
	for i := range drawn {
		drawn[i] = d.Draw(million, uint64(i+1))
	}
	for row := 512; row <= 32768; row *= 2 {
		var first *simulation.Result
		most := 0.0
		for i, in := range drawn {
			r, err := simulation.Run(context.Background(), packing("bucket", row, defaultPool, defaultAge), in, nil)
			if err != nil {
				return err
			}
			if i == 0 {
				first = r
			}
			most = max(most, r.PaddingRatio)
		}
		cells := []string{fmt.Sprint(row), fmt.Sprint(first.PaddingTokens), fmt.Sprint(leastPadding(first.Tokens, row)),
			percent(100 * first.PaddingRatio), percent(100 * most)}
		for _, c := range []packonline.Config{packing("bfd", row, defaultPool, defaultAge), packing("bfd", row, 0, 0)} {
			r, err := simulation.Run(context.Background(), c, drawn[0], nil)
			if err != nil {
				return err
			}
			cells = append(cells, percent(100*r.PaddingRatio))
		}
		m.Row(append(cells, fmt.Sprint(first.AgeMax))...)
	}
	return m.Print(out)
}

// leastPadding returns the minimum padding: what the last row lacks if all others are full.
func leastPadding(tokens int64, row int) int64 { return (int64(row) - tokens%int64(row)) % int64(row) }

// printBounds sweeps the bounds of bucket.
func printBounds(_ *report, out io.Writer) error {
	in := fineweb(million)
	var m page.Markdown
	m.Row("pool, max age", "r_pad", "r_tru", "r_cat", "oldest document", "median", "most buffered")
	for _, x := range bucketBounds {
		r, err := beyond("bucket", beyondBuckets, x.pool, x.maxAge, 0, in)
		if err != nil {
			return err
		}
		m.Row(fmt.Sprintf("%d, %d", x.pool, x.maxAge), percent(100*r.PaddingRatio),
			fmt.Sprintf("%.4f %%", 100*r.TruncationRatio),
			fmt.Sprintf("%.3f", r.ConcatenationRatio), fmt.Sprint(r.AgeMax), fmt.Sprint(r.AgeMedian), fmt.Sprint(r.PoolMax))
	}
	var tokens int64
	for _, n := range in {
		tokens += int64(n)
	}
	shortest, longest := beyondBuckets[0], beyondBuckets[len(beyondBuckets)-1]
	padding := leastPadding(tokens, shortest)
	m.Row("lower bound", percent(100*float64(padding)/float64(tokens+padding)),
		fmt.Sprintf("%.4f %%", 100*longer(in, longest)),
		fmt.Sprintf("%.3f", float64(len(in))/float64(mostRows(in, shortest, longest))), "", "", "")
	return m.Print(out)
}

// longer returns the share of documents that are longer than a row and must be split.
func longer(in []int32, row int) float64 {
	long := 0
	for _, n := range in {
		if int(n) > row {
			long++
		}
	}
	return float64(long) / float64(len(in))
}

// mostRows returns an upper bound of the number of full rows if no document that fits the longest row is split. Row
// lengths are whole multiples of the shortest row. The remainder of a span is its length beyond whole shortest rows,
// from 1 token to a shortest row. In a full row the remainders sum up to at least a shortest row. So the number of rows
// is at most the sum of all remainders divided by the shortest row.
func mostRows(in []int32, shortest, longest int) int64 {
	var rests int64
	for _, n := range in {
		rests += int64(int(n) / longest * shortest)
		if n := int(n) % longest; n > 0 {
			rests += int64((n-1)%shortest + 1)
		}
	}
	return rests / int64(shortest)
}
