package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/lengths"
	"loaderd/loader"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/stream"
	"loaderd/stream/publish"
)

const (
	vocabulary  = 50_257
	fingerprint = "bench"
)

// settings returns the settings of a daemon in this process over the published documents.
func (b *bench) settings(run string) config.Config {
	c := config.Default()
	c.Run = run
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: fingerprint, VocabSize: vocabulary,
		End: config.None, Pad: "0"}
	c.Stream.Dir = filepath.Join(b.folder, "documents")
	c.Stream.Listen, c.Flight.Listen, c.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Flight.Insecure = true // its readers are in this process
	return c
}

// fill publishes the documents if they are not yet published.
func (b *bench) fill(ctx context.Context) (err error) {
	if b.filled {
		return nil
	}
	store, err := stream.Open(ctx, b.settings("fill").Stream, quiet())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	docs, err := store.EnsureDocuments(ctx)
	if err != nil {
		return err
	}
	if docs.CachedInfo().State.LastSeq >= uint64(b.documents) {
		b.filled = true
		return nil
	}
	p, err := publish.New(ctx, store, "bench", publish.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	var ids []int32
	for i, n := range lengths.LogNormal(b.documents, 1) {
		ids = ids[:0]
		for k := range n {
			ids = append(ids, (int32(i)+k)%vocabulary)
		}
		m := stream.Message{Subject: "docs.bench", ID: strconv.Itoa(i), ContentType: stream.TypeTokens,
			Tokenizer: fingerprint, Data: stream.AppendTokens(nil, ids)}
		if err := p.Publish(ctx, m); err != nil {
			return fmt.Errorf("publish document %d: %w", i, err)
		}
	}
	if _, err := p.Flush(ctx); err != nil {
		return err
	}
	b.filled = true
	return nil
}

// available returns the number of steps of one bucket that the documents fill, without those left in the pool and the
// other buffers.
func (b *bench) available(c runconfig.Config) (steps uint64) {
	const waiting = 20_000 // documents
	var tokens int64
	for _, n := range lengths.LogNormal(b.documents, 1)[min(waiting, b.documents):] {
		tokens += int64(n)
	}
	return uint64(tokens / c.MaxStepTokens())
}

// serving starts a daemon, calls use, and stops the daemon.
func serving(ctx context.Context, c config.Config, use func(*daemon.Daemon) error) (err error) {
	d, err := daemon.Start(ctx, c, quiet())
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Shutdown.Timeout)
		defer cancel()
		err = errors.Join(err, d.Stop(stop))
	}()
	return use(d)
}

// read takes steps [from, to) of a run, as a rank that discards them.
func read(ctx context.Context, r *loader.Run, from, to uint64) error {
	reader, err := r.Join(state.RankID{World: 1}, from)
	if err != nil {
		return err
	}
	defer reader.Close()
	for range to - from {
		if _, err := reader.Next(ctx); err != nil {
			return fmt.Errorf("read steps %d to %d: %w", from, to, err)
		}
	}
	return nil
}

// started opens the document store, starts a daemon that uses it as a remote one, and calls use with the time when
// the store was open. It returns how long opening took.
func started(ctx context.Context, c config.Config, use func(d *daemon.Daemon, open time.Time) error) (
	opening time.Duration, err error) {
	began := time.Now()
	store, err := stream.Open(ctx, c.Stream, quiet())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	open := time.Now()
	c.Stream.URL = store.ClientURL()
	return open.Sub(began), serving(ctx, c, func(d *daemon.Daemon) error { return use(d, open) })
}
