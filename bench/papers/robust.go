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

var robustness = []table{
	{name: "robust",
		title: "Robustness: heavy tails, very short documents, lengths that divide a row badly, drift; " +
			"pool 4096, max age 16384",
		print: printRobust, rows: []string{
			"loaderd gen-lengths --dist constant | " +
				"loaderd simulate --method bucket --buckets 1024,2048,4096,8192,16384 --pool 4096 --max-age 16384",
		}},
}

// robustLengths are the distributions, and robustThreshold the padding threshold of bucketllm.
var robustLengths = []string{"code", "short", "constant", "drift"}

const robustThreshold = 0.02

// printRobust packs lengths that are hard to pack: into rows of one length with all methods, and into rows of several
// with the methods that support them.
func printRobust(_ *report, out io.Writer) error {
	var m page.Markdown
	m.Row("lengths, rows", "method", "padding", "split", "split though they fit a row", "documents per row",
		"oldest document")
	for _, name := range robustLengths {
		d, _ := lengths.ByName(name)
		in := d.Draw(million, 1)
		for _, rows := range []struct {
			name    string
			buckets []int
			methods []string
		}{
			{"2048", []int{2048}, []string{"bucket", "bfd", "bucketllm", "concat"}},
			{"1024 to 16384", beyondBuckets, []string{"bucket", "bucketllm"}},
		} {
			least := longer(in, rows.buckets[len(rows.buckets)-1])
			for _, method := range rows.methods {
				c := packonline.Config{Method: method, Buckets: rows.buckets, Atom: 1, Pool: defaultPool, Holdback: defaultHold,
					MaxAge:           defaultAge,
					PaddingThreshold: robustThreshold}
				r, err := simulation.Run(context.Background(), c, in, nil)
				if err != nil {
					return err
				}
				m.Row(name+", "+rows.name, method, percent(100*r.PaddingRatio), percent(100*r.TruncationRatio),
					percent(100*(r.TruncationRatio-least)), fmt.Sprintf("%.2f", r.ConcatenationRatio), fmt.Sprint(r.AgeMax))
			}
		}
	}
	return m.Print(out)
}
