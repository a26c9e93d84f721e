package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"loaderd/bench/page"
	"loaderd/internal/api"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
	"loaderd/loader"
	"loaderd/loader/runconfig"
)

// printStart starts daemons of new runs with all documents in the stream.
func printStart(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	var m page.Markdown
	m.Values("run", "documents pending", "the store opens", "ready after that", "first batch after that, median",
		"largest")
	for _, x := range []struct {
		name string
		plan runconfig.Config
	}{{"rows of 2,048", planConfig(2048)}, {"five buckets", fiveConfig()}} {
		var opened, ready, first []time.Duration
		for i := range b.repeats {
			c := b.settings(fmt.Sprintf("start-%d-%d", len(x.plan.Packing.Buckets), i))
			c.Plan = x.plan
			o, err := started(ctx, c, func(d *daemon.Daemon, open time.Time) error {
				ready = append(ready, time.Since(open))
				err := batchOf(ctx, d, 0)
				first = append(first, time.Since(open))
				return err
			})
			if err != nil {
				return err
			}
			opened = append(opened, o)
		}
		m.Values(x.name, thousands(b.documents), seconds(quantile(opened, .5)), seconds(quantile(ready, .5)),
			seconds(quantile(first, .5)), seconds(quantile(first, 1)))
	}
	return m.Print(out)
}

// batchOf reads one step over a socket.
func batchOf(ctx context.Context, d *daemon.Daemon, step uint64) error {
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		return err
	}
	err = client.Read(ctx, api.Ticket{Step: step, Steps: 1}, func(flightclient.Batch) error { return nil })
	return errors.Join(err, client.Close())
}

// printRecovery plans increasingly far beyond one checkpoint, and each time stops and restarts the daemon.
func printRecovery(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	c := b.settings("recovery")
	c.Serve.CheckpointSteps = math.MaxInt32 // only at the stop
	const checkpoint = 100                  // the step at which it resumes
	if err := serving(ctx, c, func(d *daemon.Daemon) error {
		return planTo(ctx, d.Run(), c.Serve.Ahead, checkpoint)
	}); err != nil {
		return err
	}
	c.Serve.CheckpointSteps = 0
	available := b.available(c.Plan)
	var m page.Markdown
	m.Values("steps since the checkpoint", "documents planned again", "the store opens", "ready after that",
		"first batch of a step of the plan after that", "first batch of a new step after that", "largest")
	for _, since := range []uint64{0, 100, 1000, 10_000} {
		steps := checkpoint + since
		if steps > available {
			break
		}
		if since > 0 {
			if err := serving(ctx, c, func(d *daemon.Daemon) error {
				return planTo(ctx, d.Run(), c.Serve.Ahead, steps)
			}); err != nil {
				return err
			}
		}
		s := c
		s.Serve.Ahead = 1 // so that the measurement plans few further steps
		var opened, ready, old, fresh []time.Duration
		var documents []uint64
		for range b.repeats {
			o, err := started(ctx, s, func(d *daemon.Daemon, open time.Time) error {
				ready = append(ready, time.Since(open))
				planned := d.Run().Info().Planned
				if err := batchOf(ctx, d, checkpoint-1); err != nil {
					return err
				}
				old = append(old, time.Since(open))
				if err := batchOf(ctx, d, planned); err != nil {
					return err
				}
				fresh = append(fresh, time.Since(open))
				n, err := between(ctx, d.Run(), checkpoint, planned)
				documents = append(documents, n)
				return err
			})
			if err != nil {
				return err
			}
			opened = append(opened, o)
		}
		m.Values(thousands(since), thousands(documents[0]), seconds(quantile(opened, .5)), seconds(quantile(ready, .5)),
			seconds(quantile(old, .5)), seconds(quantile(fresh, .5)), seconds(quantile(fresh, 1)))
	}
	return m.Print(out)
}

// planTo reads until exactly the given number of steps is planned.
func planTo(ctx context.Context, r *loader.Run, ahead int, steps uint64) error {
	last := steps - uint64(ahead) - 1 // the last step to request
	from := min(last, r.Info().Planned)
	if err := read(ctx, r, from, last+1); err != nil {
		return err
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for r.Info().Planned < steps {
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// between returns the number of documents that the planner received from one step to another.
func between(ctx context.Context, r *loader.Run, from, to uint64) (uint64, error) {
	a, err := r.Step(ctx, from-1)
	if err != nil {
		return 0, err
	}
	z, err := r.Step(ctx, to-1)
	if err != nil {
		return 0, err
	}
	return z.Cursor.Last() - a.Cursor.Last(), nil
}
