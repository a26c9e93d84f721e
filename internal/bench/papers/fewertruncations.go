package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"syscall"
	"time"

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
	var ffd, bfd float64
	for _, p := range published1 {
		name := fmt.Sprintf("%dM", p.documents/million)
		if p.documents <= most {
			var err error
			if ffd, err = packSeconds("ffd", p.documents); err != nil {
				return err
			}
			if bfd, err = packSeconds("bfd", p.documents); err != nil {
				return err
			}
		} else {
			ffd, bfd = ffd*float64(p.documents)/float64(most), bfd*float64(p.documents)/float64(most)
			most = p.documents
			name += ", extrapolated"
		}
		m.row(name, seconds(p.ffd), seconds(ffd), times(p.ffd/ffd), seconds(p.bfd), seconds(bfd), times(p.bfd/bfd))
	}
	return m.print(out)
}

func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.3f", s)
	}
	return fmt.Sprintf("%.0f", s)
}

func times(x float64) string { return fmt.Sprintf("%.0f", x) }

// packSeconds packs so many lengths with a pool for all and returns the processor time from the first length to the last row, with what
// is in it. Fewer documents are packed more often, and the least counts.
func packSeconds(method string, documents int) (float64, error) {
	d, _ := lengths.Named("web")
	in := d.Draw(documents, 1)
	var least time.Duration
	for range max(1, min(5, 20*million/documents)) {
		p, err := packonline.New(packing(method, 2048, documents, 0))
		if err != nil {
			return 0, err
		}
		debug.FreeOSMemory()
		start := processorTime()
		var rows packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &rows)
		}
		p.Flush(&rows)
		if t := processorTime() - start; least == 0 || t < least {
			least = t
		}
	}
	return least.Seconds(), nil
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only a wrong argument can be
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// packing is the configuration of one row length with atoms of a row. A pool of 0 holds everything.
func packing(method string, row, pool, maxAge int) packonline.Config {
	return packonline.Config{Method: method, Buckets: []int{row}, Atom: 1, Pool: pool, MaxAge: maxAge}
}

// printCompactness compares rows with those of concatenation, offline and over pools.
func printCompactness(out io.Writer) error {
	var m markdown
	m.row("lengths, row, documents", "published", "bfd offline", "ffd offline",
		"bfd, pool 1k", "pool 4k", "pool 16k", "pool 64k", "pool 1k, age 4k", "pool 4k, age 16k", "pool 16k, age 64k", "pool 64k, age 256k")
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
	return out
}
