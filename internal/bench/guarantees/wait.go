package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"loaderd/internal/daemon"
	"loaderd/internal/reader"
)

// waitRanks read in lock step for the table of waits.
const waitRanks = 8

// printWait prints how long eight ranks that compute for 10 ms wait for a step, and at a raw socket: the table of lock step in short.
func printWait(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	c := b.settings("wait")
	var served paces
	if err := serving(ctx, c, func(d *daemon.Daemon) (err error) {
		served, err = lockstep(ctx, waitRanks, b.steps, pause, func(ctx context.Context, rank int, step func() error) error {
			return readRank(ctx, d, reader.Ticket{Rank: rank, World: waitRanks, Steps: uint64(b.steps)}, step)
		})
		return err
	}); err != nil {
		return err
	}
	size := c.Plan.Steps.Rows / waitRanks * c.Plan.Packing.Buckets[0] * slotBytes
	raw, err := lockstep(ctx, waitRanks, b.steps, pause, func(ctx context.Context, _ int, step func() error) error {
		return readRaw(ctx, size, b.steps, step)
	})
	if err != nil {
		return err
	}
	if b.json {
		return json.NewEncoder(out).Encode(map[string]waits{"daemon": waitsOf(served), "raw socket": waitsOf(raw)})
	}
	var m markdown
	m.row("", "p50", "p99", "p99.9", "largest")
	m.row("daemon", served.latency(.5), served.latency(.99), served.latency(.999), served.latency(1))
	m.row("raw socket", raw.latency(.5), raw.latency(.99), raw.latency(.999), raw.latency(1))
	return m.print(out)
}

// waits are quantiles of how long a step took (unit: ms).
type waits struct {
	Half     float64 `json:"p50"`
	Hundred  float64 `json:"p99"`
	Thousand float64 `json:"p99.9"`
}

func waitsOf(p paces) waits {
	at := func(q float64) float64 { return float64(quantile(p.latencies, q)) / float64(time.Millisecond) }
	return waits{at(.5), at(.99), at(.999)}
}
