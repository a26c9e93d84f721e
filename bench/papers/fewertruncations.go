package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"loaderd/bench/page"
	"loaderd/bench/record"
	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

// Fewer Truncations packs Refined Web and the Stack; the distributions web and code replace their lengths.
var fewerTruncations = []table{
	{name: "fewer-1", title: "Fewer Truncations, Table 1: seconds to pack, rows of 2,048", timed: true,
		print: printSeconds, rows: []string{
			"loaderd gen-lengths --dist web -n 1000000 | loaderd simulate --method ffd --length 2048 --pool 0" +
				"    # seconds; or bfd",
		}},
	{name: "fewer-2", title: "Fewer Truncations, Table 2: sequences beyond those of concatenation, in %",
		print: printCompactness, rows: []string{
			"loaderd gen-lengths --dist web -n 10000000 | loaderd simulate --method bfd --length 2048 --pool 4096" +
				" --max-age 16384    # 100 * (sequences / ceil(tokens / 2048) - 1)",
		}},
}

const million = 1_000_000

// published1 has the seconds of the paper's Python implementation.
var published1 = []struct {
	documents int
	ffd, bfd  float64
}{{million, 17, 10}, {10 * million, 205, 106}, {100 * million, 2311, 1066}}

// printSeconds measures up to 10 million documents, or 100 million if large is set.
func printSeconds(_ *report, out io.Writer) error {
	machine := record.ThisMachine()
	measured := published1[:2]
	if *large {
		measured = published1
		debug.SetMemoryLimit(13 << 29) // 6.5 GiB: collect garbage before allocating more
	}
	var m page.Markdown
	m.Row("documents", "ffd, published", "ffd, ours", "times faster", "bfd, published", "bfd, ours", "times faster")
	d, _ := lengths.ByName("web")
	for _, p := range measured {
		repeats := max(1, min(5, 20*million/p.documents))
		s, err := packSeconds(d.Draw(p.documents, 1), repeats, offline("ffd", 2048, p.documents),
			offline("bfd", 2048, p.documents))
		if err != nil {
			return err
		}
		m.Row(fmt.Sprintf("%dM", p.documents/million), seconds(p.ffd), seconds(s[0]), times(p.ffd/s[0]),
			seconds(p.bfd), seconds(s[1]), times(p.bfd/s[1]))
	}
	return m.Print(out, machine)
}

func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.3f", s)
	}
	return fmt.Sprintf("%.0f", s)
}

// packing returns the configuration of one row length with atoms of a row, as in loaderd simulate. It has the default
// holdback unless pool is 0, which means a pool that holds everything.
func packing(method string, row, pool, maxAge int) packonline.Config {
	c := packonline.Config{Method: method, Buckets: []int{row}, Atom: 1, Pool: pool, MaxAge: maxAge}
	if pool > 0 {
		c.Holdback = defaultHold
	}
	return c
}

// offline returns packing with a pool that holds all of the given number of documents.
func offline(method string, row, documents int) packonline.Config {
	c := packing(method, row, 0, 0)
	c.Pool = documents
	return c
}

// printCompactness compares rows with those of concatenation, offline and over pools.
func printCompactness(_ *report, out io.Writer) error {
	var m page.Markdown
	m.Row("lengths, row, documents", "published", "bfd offline", "ffd offline",
		"bfd, pool 1k", "bfd, pool 4k", "bfd, pool 16k", "bfd, pool 1k, age 4k", "bfd, pool 4k, age 16k",
		"bfd, pool 16k, age 64k",
		"bucket, pool 4k, age 16k")
	for _, x := range []struct {
		name, published string
		row             int
	}{{"web", "0.0024", 2048}, {"web", "0.00063", 8192}, {"code", "0.0028", 2048}} {
		for documents := million; documents <= 10*million; documents *= 10 {
			d, _ := lengths.ByName(x.name)
			in := d.Draw(documents, 1)
			cells := []string{fmt.Sprintf("%s, %d, %dM", x.name, x.row, documents/million), x.published}
			for _, c := range compactness(x.row) {
				r, err := simulation.Run(context.Background(), c, in, nil)
				if err != nil {
					return err
				}
				concat := (r.Tokens + int64(x.row) - 1) / int64(x.row)
				cells = append(cells, fmt.Sprintf("%.5f", 100*float64(r.Sequences-concat)/float64(concat)))
			}
			m.Row(cells...)
		}
	}
	return m.Print(out)
}

// compactness returns the packers of the columns.
func compactness(row int) []packonline.Config {
	out := []packonline.Config{packing("bfd", row, 0, 0), packing("ffd", row, 0, 0)}
	for _, ages := range []int{0, 4} {
		for pool := 1 << 10; pool <= 1<<14; pool *= 4 {
			out = append(out, packing("bfd", row, pool, ages*pool))
		}
	}
	return append(out, packing("bucket", row, defaultPool, defaultAge))
}
