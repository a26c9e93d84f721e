package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"loaderd/bench/page"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/planlog"
)

// printCheckpoints measures saving the state of a full planner to the object store of an embedded server, and
// restoring it.
func printCheckpoints(ctx context.Context, b *bench, out io.Writer) (err error) {
	sc := stream.Default()
	sc.Dir, sc.Listen = filepath.Join(b.folder, "checkpoints"), "127.0.0.1:0"
	store, err := stream.Open(ctx, sc, quiet())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(), os.RemoveAll(sc.Dir)) }()
	var m page.Markdown
	m.Values("pool, window", "buckets", "largest state", "of it ids for `documents.dedupe`", "taking it", "storing it",
		"reading it", "restoring it")
	for _, x := range []struct{ pool, window, maxAge int }{{4096, 1024, 16384}, {65536, 16384, 262144}} {
		for _, c := range []runconfig.Config{planConfig(2048), fiveConfig()} {
			c.Packing.Pool, c.Packing.MaxAge, c.Shuffle.Window = x.pool, x.maxAge, x.window
			s, err := measureState(ctx, store, c, b)
			if err != nil {
				return err
			}
			m.Values(fmt.Sprintf("%s, %s", thousands(x.pool), thousands(x.window)), len(c.Packing.Buckets),
				fmt.Sprintf("%.2f MB", float64(s.largest)/1e6),
				fmt.Sprintf("%.2f MB", float64(8*c.Documents.Dedupe)/1e6), milliseconds(s.take), milliseconds(s.put),
				milliseconds(s.get), milliseconds(s.restore))
		}
	}
	return m.Print(out)
}

type stateFigures struct {
	largest                 int
	take, put, get, restore time.Duration // medians
}

// measureState plans until every buffer is full, then measures the state repeatedly.
func measureState(ctx context.Context, store *stream.Store, c runconfig.Config, b *bench) (f stateFigures, err error) {
	const apart = 10_000 // documents
	in := arrivals(3*c.Documents.Dedupe + 8*c.Packing.Pool)
	log, err := planlog.Open(ctx, store, fmt.Sprintf("state-%d-%d", c.Packing.Pool, len(c.Packing.Buckets)))
	if err != nil {
		return f, err
	}
	objects, err := checkpoints.Open(ctx, log)
	if err != nil {
		return f, err
	}
	var take, put, get, restore []time.Duration
	measure := func(p *planner.Planner) error {
		began := time.Now()
		state := p.AppendState(nil)
		take = append(take, time.Since(began))
		f.largest = max(f.largest, len(state))
		began = time.Now()
		stored, err := objects.Put(ctx, 1, p.Next(), state)
		if err != nil {
			return err
		}
		put = append(put, time.Since(began))
		began = time.Now()
		read, err := objects.Get(ctx, stored[len(stored)-1].Name)
		if err != nil {
			return err
		}
		get = append(get, time.Since(began))
		began = time.Now()
		again, err := newPlanner(c)
		if err != nil {
			return err
		}
		if err := again.RestoreState(read); err != nil {
			return err
		}
		restore = append(restore, time.Since(began))
		if !bytes.Equal(again.AppendState(nil), state) {
			return errors.New("a restored planner has another state")
		}
		return nil
	}
	var failed error
	_, err = planSteps(ctx, c, in, func(p *planner.Planner, a plan.Arrival, _ []plan.Step) {
		if failed == nil && a.Sequence > uint64(len(in)/2) && a.Sequence%apart == 0 {
			failed = measure(p)
		}
	})
	f.take, f.put, f.get, f.restore = quantile(take, .5), quantile(put, .5), quantile(get, .5), quantile(restore, .5)
	return f, errors.Join(err, failed)
}

// quiet returns a logger of warnings and errors.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
