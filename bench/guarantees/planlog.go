package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"loaderd/bench/page"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/planlog"
)

// tokenBytes is the number of bytes of a token in a tokenized document, and in a batch.
const tokenBytes = 4

// printPlanLog prints the sizes of the plans of real runs.
func printPlanLog(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	var m page.Markdown
	m.Values("run", "steps", "tokens", "bytes of records for 1M tokens", "bytes in the stream's files for 1M tokens",
		"of the token bytes")
	small := planConfig(2048)
	small.Steps.Rows = 8
	for _, x := range []struct {
		name   string
		plan   runconfig.Config
		tokens int64
	}{
		{"rows of 2,048, 64 a step", planConfig(2048), 64 * 2048},
		{"rows of 2,048, 8 a step", small, 8 * 2048},
		{"five buckets, 393,216 tokens a step", fiveConfig(), paperStep},
	} {
		c := b.settings(fmt.Sprintf("log-%d-%d", len(x.plan.Packing.Buckets), x.tokens))
		c.Plan = x.plan
		steps := uint64(int64(b.documents) * 500 / x.tokens) // at most half of the available ones
		if err := serving(ctx, c, func(d *daemon.Daemon) error { return read(ctx, d.Run(), 0, steps) }); err != nil {
			return err
		}
		s, err := weigh(ctx, c)
		if err != nil {
			return err
		}
		perMillion := func(bytes uint64) float64 { return float64(bytes) / float64(s.tokens) * 1e6 }
		m.Values(x.name, thousands(s.steps), fmt.Sprintf("%.0fM", float64(s.tokens)/1e6),
			thousands(int64(perMillion(s.records))), thousands(int64(perMillion(s.stored))),
			percent(perMillion(s.stored)/(tokenBytes*1e6), 3))
	}
	return m.Print(out)
}

type weight struct {
	steps           int
	tokens          int64
	records, stored uint64 // bytes
}

// weigh reads the whole plan of a run.
func weigh(ctx context.Context, c config.Config) (w weight, err error) {
	store, err := stream.Open(ctx, c.Stream, quiet())
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := planlog.OpenReadOnly(ctx, store, c.Run)
	if err != nil {
		return w, err
	}
	if err := log.Scan(ctx, 1, func(_ uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		w.records += uint64(len(record))
		if part, ok := e.(planrecord.StepPart); ok {
			w.steps++
			for _, row := range part.Rows {
				for _, x := range row {
					w.tokens += int64(x.Length)
				}
			}
		}
		return err
	}); err != nil {
		return w, err
	}
	st, err := store.JetStream().Stream(ctx, "PLAN_"+c.Run)
	if err != nil {
		return w, err
	}
	w.stored = st.CachedInfo().State.Bytes
	return w, nil
}
