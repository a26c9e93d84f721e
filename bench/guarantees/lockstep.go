package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/bench/page"
	"loaderd/internal/api"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
)

// slotBytes is the number of bytes of a token in a batch: its id and its segment id.
const slotBytes = 4 + 2

// pause is the minimum duration of a training step between two barriers.
const pause = 10 * time.Millisecond

// printLockstep measures ranks that read with a barrier per step. A step lasts from the barrier until the last rank
// has its decoded batch. The baseline of the machine is a raw socket that sends as many bytes to each rank.
func printLockstep(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	var steps, apart page.Markdown
	steps.Values("ranks", "between steps", "steps a second", "step: p50", "p99", "p99.9", "largest", "raw socket: p50",
		"p99", "p99.9", "largest")
	apart.Values("ranks", "between steps", "apart: p50", "p99", "p99.9", "largest", "raw socket: p50", "p99", "p99.9",
		"largest")
	for _, between := range []time.Duration{pause, 0} {
		for _, world := range []int{1, 2, 8} {
			c := b.settings(fmt.Sprintf("lockstep-%d-%d", world, between.Milliseconds()))
			var s paces
			if err := serving(ctx, c, func(d *daemon.Daemon) (err error) {
				s, err = lockstep(ctx, world, b.steps, between, func(ctx context.Context, rank int, step func() error) error {
					return readRank(ctx, d, flightclient.Options{Reuse: true},
						api.Ticket{Rank: rank, World: world, Steps: uint64(b.steps)},
						step)
				})
				return err
			}); err != nil {
				return err
			}
			rows := c.Plan.Steps.Rows / world
			raw, err := lockstep(ctx, world, b.steps, between, func(ctx context.Context, _ int, step func() error) error {
				return readRaw(ctx, rows*c.Plan.Packing.Buckets[0]*slotBytes, b.steps, step)
			})
			if err != nil {
				return err
			}
			work := "nothing"
			if between > 0 {
				work = milliseconds(between)
			}
			steps.Values(world, work, fmt.Sprintf("%.0f", float64(len(s.latencies))/s.took.Seconds()), s.latency(.5),
				s.latency(.99), s.latency(.999), s.latency(1), raw.latency(.5), raw.latency(.99), raw.latency(.999), raw.latency(1))
			if world > 1 {
				apart.Values(world, work, s.difference(.5), s.difference(.99), s.difference(.999), s.difference(1),
					raw.difference(.5), raw.difference(.99), raw.difference(.999), raw.difference(1))
			}
		}
	}
	if err := steps.Print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return apart.Print(out)
}

// paces are the duration of each step, the time between its ranks' arrivals, and the total time.
type paces struct {
	latencies, apart []time.Duration
	took             time.Duration
}

func (p paces) latency(q float64) string    { return milliseconds(quantile(p.latencies, q)) }
func (p paces) difference(q float64) string { return milliseconds(quantile(p.apart, q)) }

// lockstep reads steps with all ranks; read calls step after each. The first step, for which the pool must be filled,
// does not count.
func lockstep(ctx context.Context, world, steps int, between time.Duration,
	read func(ctx context.Context, rank int, step func() error) error) (paces, error) {
	g, ctx := errgroup.WithContext(ctx)
	b := &barrier{arrived: make(chan time.Time, world), released: make([]chan struct{}, world), between: between}
	for rank := range world {
		b.released[rank] = make(chan struct{}, 1)
		g.Go(func() error { return read(ctx, rank, func() error { return b.arrive(ctx, rank) }) })
	}
	g.Go(func() error { return b.run(ctx, steps) })
	err := g.Wait()
	return b.paces, err
}

// barrier blocks ranks until all have read their step.
type barrier struct {
	arrived  chan time.Time
	released []chan struct{} // by rank
	between  time.Duration   // from the last arrival until the release
	paces    paces
}

// arrive waits until the other ranks have read the step.
func (b *barrier) arrive(ctx context.Context, rank int) error {
	b.arrived <- time.Now()
	select {
	case <-b.released[rank]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run releases the ranks after each step, and measures.
func (b *barrier) run(ctx context.Context, steps int) error {
	var began, freed time.Time
	for step := range steps {
		first, last, err := b.gather(ctx)
		if err != nil {
			return err
		}
		if step == 0 {
			began = last
		} else {
			p := &b.paces
			p.took = last.Sub(began)
			p.latencies, p.apart = append(p.latencies, last.Sub(freed)), append(p.apart, last.Sub(first))
		}
		if b.between > 0 {
			select {
			case <-time.After(b.between):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		freed = time.Now()
		for _, r := range b.released {
			r <- struct{}{}
		}
	}
	return nil
}

// gather waits for all ranks and returns the first and the last arrival.
func (b *barrier) gather(ctx context.Context) (first, last time.Time, err error) {
	for rank := range b.released {
		select {
		case t := <-b.arrived:
			if rank == 0 || t.Before(first) {
				first = t
			}
			if t.After(last) {
				last = t
			}
		case <-ctx.Done():
			return first, last, ctx.Err()
		}
	}
	return first, last, nil
}

// readRank reads one rank's steps from the daemon.
func readRank(ctx context.Context, d *daemon.Daemon, o flightclient.Options, t api.Ticket,
	step func() error) (err error) {
	client, err := flightclient.Open(d.FlightURI(), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return client.Read(ctx, t, func(b flightclient.Batch) error {
		if b.Meta.Part < b.Meta.Parts-1 {
			return nil
		}
		return step()
	})
}
