// Peers is loaderd's side of the comparison with other packers. It packs document lengths on one core, alone and with
// moving the tokens into rows. It prints the cost as JSON, or the rows for another program to check.
//
//	bin/peers -draw 200000 > lengths
//	bin/peers -method bfd -pool 4096 -max-age 16384 lengths
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"

	"loaderd/bench/record"
	"loaderd/internal/lengths"
	"loaderd/packonline"
)

type result struct {
	Documents int     `json:"documents"`
	Alone     float64 `json:"alone_cpu_seconds"`    // packing lengths
	Moved     float64 `json:"moved_cpu_seconds"`    // the same, and filling rows of tokens and segment ids
	Added     int64   `json:"added_memory_bytes"`   // peak memory that the latter added to the process
	Process   int64   `json:"process_memory_bytes"` // peak memory of the process then, without the documents
}

func main() {
	runtime.GOMAXPROCS(1)
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	drawn := f.Int("draw", 0, "print this many log-normal lengths and do nothing else")
	seed := f.Uint64("seed", 1, "of the drawn lengths")
	methods := f.Bool("methods", false, "print the names of the packing methods and do nothing else")
	method := f.String("method", "bfd", "packing method")
	row := f.Int("length", 2048, "row length in tokens")
	pool := f.Int("pool", 4096, "pieces that may wait")
	maxAge := f.Int("max-age", 16384, "documents that may arrive before a document leaves")
	rounds := f.Int("rounds", 3, "rounds of each; the median is printed")
	rows := f.Bool("rows", false,
		"write the rows instead of figures: for each the documents that have arrived (int64) and its tokens (int32), "+
			"which are numbered from 1 over the whole input, 0 for padding; native byte order")
	if err := f.Parse(args); err != nil {
		return err
	}
	w := bufio.NewWriter(stdout)
	switch {
	case *drawn > 0:
		for _, n := range lengths.LogNormal(*drawn, *seed) {
			fmt.Fprintln(w, n)
		}
		return w.Flush()
	case *methods:
		for _, name := range packonline.Methods() {
			fmt.Fprintln(w, name)
		}
		return w.Flush()
	}
	docs, err := readLengths(f.Arg(0))
	if err != nil {
		return err
	}
	config := packonline.Config{Method: *method, Buckets: []int{*row}, Atom: 1, Pool: *pool, MaxAge: *maxAge}
	if *rows {
		m, err := newMover(docs, *row)
		if err != nil {
			return err
		}
		m.out = w
		return errors.Join(m.pack(config), w.Flush())
	}
	r, err := measure(config, docs, *rounds)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(r)
}

func readLengths(path string) (docs []int32, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s := bufio.NewScanner(file)
	for s.Scan() {
		n, err := strconv.ParseInt(s.Text(), 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s:%d: %q is not a document length", path, len(docs)+1, s.Text())
		}
		docs = append(docs, int32(n))
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: no document lengths", path)
	}
	return docs, nil
}

func measure(config packonline.Config, docs []int32, rounds int) (result, error) {
	r := result{Documents: len(docs)}
	var err error
	if r.Alone, _, err = median(rounds, func() error { return packAlone(config, docs) }); err != nil {
		return r, err
	}
	m, err := newMover(docs, config.Buckets[0])
	if err != nil {
		return r, err
	}
	if r.Moved, r.Added, err = median(rounds, func() error { return m.pack(config) }); err != nil {
		return r, err
	}
	r.Process, err = peak()
	r.Process -= int64(4 * len(m.tokens))
	return r, err
}

// median returns the median of the CPU seconds of f, and the maximum memory that a round added to the process.
func median(rounds int, f func() error) (seconds float64, added int64, err error) {
	var all []float64
	for range rounds {
		runtime.GC()
		before, err := resetPeak()
		if err != nil {
			return 0, 0, err
		}
		began := record.ProcessorTime()
		if err := f(); err != nil {
			return 0, 0, err
		}
		all = append(all, (record.ProcessorTime() - began).Seconds())
		after, err := peak()
		if err != nil {
			return 0, 0, err
		}
		added = max(added, after-before)
	}
	slices.Sort(all)
	return all[len(all)/2], added, nil
}
