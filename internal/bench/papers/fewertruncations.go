package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

// Fewer Truncations packs Refined Web, for whose lengths web stands in, and the Stack, for which code does.
var fewerTruncations = []table{
	{"fewer-1", "Fewer Truncations, Table 1: seconds to pack, rows of 2,048", printSpeed},
	{"fewer-2", "Fewer Truncations, Table 2: sequences beyond those of concatenation, in %", printCompactness},
}

const million = 1_000_000

// published1 has the seconds of the paper's Python.
var published1 = []struct {
	documents int
	ffd, bfd  float64
}{{million, 17, 10}, {10 * million, 205, 106}, {100 * million, 2311, 1066}, {1000 * million, 26354, 10816}}

// printSpeed measures up to 10 or 100 million documents; what is beyond is the last measurement times the documents.
func printSpeed(out io.Writer) error {
	most := 10 * million
	if *large {
		most *= 10
		debug.SetMemoryLimit(13 << 29) // 6.5 GiB: what is garbage leaves before more is asked for
	}
	var m markdown
	m.row("documents", "ffd, published", "ffd, ours", "times faster", "bfd, published", "bfd, ours", "times faster")
	d, _ := lengths.Named("web")
	var ffd, bfd float64
	for _, p := range published1 {
		name := fmt.Sprintf("%dM", p.documents/million)
		if p.documents <= most {
			var err error
			in := d.Draw(p.documents, 1)
			times := max(1, min(5, 20*million/p.documents))
			if ffd, err = packSeconds(offline("ffd", 2048, p.documents), in, times); err != nil {
				return err
			}
			if bfd, err = packSeconds(offline("bfd", 2048, p.documents), in, times); err != nil {
				return err
			}
		} else {
			ffd, bfd = ffd*float64(p.documents)/float64(most), bfd*float64(p.documents)/float64(most)
			most = p.documents
			name += ", extrapolated"
		}
		m.row(name, seconds(p.ffd), seconds(ffd), factor(p.ffd/ffd), seconds(p.bfd), seconds(bfd), factor(p.bfd/bfd))
	}
	return m.print(out)
}

func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.3f", s)
	}
	return fmt.Sprintf("%.0f", s)
}

func factor(x float64) string { return fmt.Sprintf("%.0f", x) }

// packing is the configuration of one row length with atoms of a row, as loaderd simulate has it: with the default hold unless the pool,
// which is then 0, holds everything.
func packing(method string, row, pool, maxAge int) packonline.Config {
	c := packonline.Config{Method: method, Buckets: []int{row}, Atom: 1, Pool: pool, MaxAge: maxAge}
	if pool > 0 {
		c.Hold = defaultHold
	}
	return c
}

// offline is packing with a pool that holds so many documents, all there are.
func offline(method string, row, documents int) packonline.Config {
	c := packing(method, row, 0, 0)
	c.Pool = documents
	return c
}

// printCompactness compares rows with those of concatenation, offline and over pools.
func printCompactness(out io.Writer) error {
	var m markdown
	m.row("lengths, row, documents", "published", "bfd offline", "ffd offline",
		"bfd, pool 1k", "pool 4k", "pool 16k", "pool 64k", "pool 1k, age 4k", "pool 4k, age 16k", "pool 16k, age 64k", "pool 64k, age 256k", "bucket, pool 4k, age 16k")
	for _, x := range []struct {
		name, published string
		row             int
	}{{"web", "0.0024", 2048}, {"web", "0.00063", 8192}, {"code", "0.0028", 2048}} {
		for documents := million; documents <= 10*million; documents *= 10 {
			d, _ := lengths.Named(x.name)
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
			m.row(cells...)
		}
	}
	return m.print(out)
}

// compactness lists the packers of the columns.
func compactness(row int) []packonline.Config {
	out := []packonline.Config{packing("bfd", row, 0, 0), packing("ffd", row, 0, 0)}
	for _, ages := range []int{0, 4} {
		for pool := 1 << 10; pool <= 1<<16; pool *= 4 {
			out = append(out, packing("bfd", row, pool, ages*pool))
		}
	}
	return append(out, packing("bucket", row, defaultPool, defaultAge))
}
