// Cores runs up to 16 goroutines that tokenize, or read from one daemon, each with the same work. The processor time
// per byte must not depend on their number, and goroutines must not wait for locks. On a machine with 16 cores or
// more it shows the speedup. On fewer cores it simulates contention: GOMAXPROCS exceeds the number of cores, so that
// the system preempts goroutines anywhere, including where they hold a lock.
//
//	bin/cores
//	bin/cores -profile bin    # bin/mutex and bin/block, for go tool pprof
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"loaderd/bench/record"
)

// processors is GOMAXPROCS for every number of workers.
const processors = 16

// result compares a number of workers with one.
type result struct {
	Work     string  `json:"work"`
	Workers  int     `json:"workers"`
	CPU      float64 `json:"cpu_ms_per_mb"`
	Baseline float64 `json:"baseline_cpu_ms_per_mb"` // of one worker
	// of all workers together; for more than one, as fast as the number of cores permits
	Speed float64 `json:"mb_per_second"`
	Alone float64 `json:"baseline_mb_per_second"` // of one worker
	// time that all goroutines waited for locks, as a share of the workers' time
	Blocked float64 `json:"blocked_share"`
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cores:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("cores", flag.ContinueOnError)
	bytes := f.Int("bytes", 8_000_000, "bytes of text that each worker tokenizes")
	steps := f.Uint64("steps", 40, "steps of 64 rows of 2,048 that each reader reads")
	repeats := f.Int("repeats", 5, "times that everything is measured; the medians are printed")
	asJSON := f.Bool("json", false, "print JSON")
	profile := f.String("profile", "", "write profiles of mutexes and of blocking into this folder")
	if err := f.Parse(args); err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	if *profile != "" {
		defer profiling()()
	}
	var all []result
	for _, w := range []struct {
		name string
		open func() (measured, error)
	}{
		{"tokenizing, warm", func() (measured, error) { return openTokenizing(ctx, *bytes, true) }},
		{"tokenizing, cold", func() (measured, error) { return openTokenizing(ctx, *bytes, false) }},
		{"serving", func() (measured, error) { return openServing(ctx, *steps) }},
	} {
		work, err := w.open()
		if err != nil {
			return fmt.Errorf("prepare %s: %w", w.name, err)
		}
		found, err := compare(w.name, work, *repeats)
		if err = cmp.Or(err, work.close()); err != nil {
			return fmt.Errorf("measure %s: %w", w.name, err)
		}
		all = append(all, found...)
	}
	if *profile != "" {
		if err := writeProfiles(*profile); err != nil {
			return err
		}
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(all)
	}
	fmt.Fprintln(out, "| work | workers | CPU a MB | of one worker's | MB/s | of one worker's | blocked |\n| --- | "+
		"---: | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range all {
		fmt.Fprintf(out, "| %s | %d | %.2f ms | %.2f | %.0f | %.2f | %.2f %% |\n", r.Work, r.Workers, r.CPU, r.CPU/r.Baseline,
			r.Speed, r.Speed/r.Alone, 100*r.Blocked)
	}
	return nil
}

// measured is work that a number of workers do concurrently, each the same amount.
type measured struct {
	do    func(workers int) (spent, error)
	close func() error
}

// workers are the numbers of workers that are compared with one.
var workers = []int{2, 4, 8, processors}

// compare measures one worker and more workers alternately, so that other load slows all of them.
func compare(name string, work measured, repeats int) ([]result, error) {
	cpu, speed, blocked := map[int][]float64{}, map[int][]float64{}, map[int][]float64{}
	for range repeats {
		for _, n := range append([]int{1}, workers...) {
			s, err := work.do(n)
			if err != nil {
				return nil, err
			}
			mb := float64(s.bytes) / 1e6
			cpu[n] = append(cpu[n], s.cpu.Seconds()*1e3/mb)
			speed[n] = append(speed[n], mb/s.wall.Seconds())
			blocked[n] = append(blocked[n], s.blocked.Seconds()/(float64(n)*s.wall.Seconds()))
		}
	}
	var out []result
	for _, n := range workers {
		out = append(out, result{name, n, record.Median(cpu[n]), record.Median(cpu[1]), record.Median(speed[n]),
			record.Median(speed[1]), record.Median(blocked[n])})
	}
	return out, nil
}
