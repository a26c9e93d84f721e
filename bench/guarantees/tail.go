package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"loaderd/bench/page"
	"loaderd/bench/record"
	"loaderd/internal/api"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
)

const (
	// tailWorld is the number of ranks.
	tailWorld = 8
	// slow is the wait above which a step counts as slow: a trainer that computes for pause is delayed by it.
	slow = 5 * time.Millisecond
)

// printTail measures how long a trainer of eight ranks that computes between its steps waits for them, compared with
// a raw socket in the same run. It measures clients with a rank's windows, and clients with the largest windows that
// increase throughput.
func printTail(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	var m page.Markdown
	m.Values("what brings a step", "p50", "p99", "p99.9", "largest", "over 5 ms, of 1,000", "p99.9 above the raw socket's",
		"processor time a step", "documents read again")
	add := func(name string, p paces, above, cpu, again string) {
		m.Values(name, p.latency(.5), p.latency(.99), p.latency(.999), p.latency(1), fmt.Sprintf("%.1f", p.perThousand(slow)),
			above, cpu, again)
	}
	rows := b.settings("tail").Plan.Steps.Rows / tailWorld
	bytes := rows * b.settings("tail").Plan.Packing.Buckets[0] * slotBytes
	raw, err := lockstep(ctx, tailWorld, b.steps, pause, func(ctx context.Context, _ int, step func() error) error {
		return readRaw(ctx, bytes, b.steps, step)
	})
	if err != nil {
		return err
	}
	add("raw socket", raw, "", "", "")
	windows := []int32{flightclient.RankWindow, flightclient.BulkWindow}
	if b.json {
		windows = windows[:1]
	}
	for _, window := range windows {
		var s paces
		var cpu time.Duration
		var misses int64
		if err := serving(ctx, b.settings(fmt.Sprintf("tail-%d-%d", window, time.Now().UnixNano())),
			func(d *daemon.Daemon) (err error) {
				before := record.ProcessorTime()
				s, err = lockstep(ctx, tailWorld, b.steps, pause, func(ctx context.Context, rank int, step func() error) error {
					return readRank(ctx, d, flightclient.Options{Window: window, Reuse: true},
						api.Ticket{Rank: rank, World: tailWorld, Steps: uint64(b.steps)}, step)
				})
				cpu, misses = record.ProcessorTime()-before, d.Run().Stats().CacheMisses
				return err
			}); err != nil {
			return err
		}
		if b.json {
			return json.NewEncoder(out).Encode(map[string]waits{"daemon": waitsOf(s), "raw socket": waitsOf(raw)})
		}
		add(fmt.Sprintf("loaderd, clients' windows of %d KiB", window>>10), s,
			milliseconds(quantile(s.latencies, .999)-quantile(raw.latencies, .999)),
			milliseconds(cpu/time.Duration(b.steps)), thousands(misses))
	}
	return m.Print(out)
}

// waits is quantiles of the duration of a step, in ms.
type waits struct {
	Half     float64 `json:"p50"`
	Hundred  float64 `json:"p99"`
	Thousand float64 `json:"p99.9"`
}

func waitsOf(p paces) waits {
	at := func(q float64) float64 { return float64(quantile(p.latencies, q)) / float64(time.Millisecond) }
	return waits{at(.5), at(.99), at(.999)}
}

// perThousand returns how many of 1,000 steps took longer than d.
func (p paces) perThousand(d time.Duration) float64 {
	n := 0
	for _, l := range p.latencies {
		if l > d {
			n++
		}
	}
	return 1000 * float64(n) / float64(max(len(p.latencies), 1))
}
