package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
	"loaderd/internal/lengths"
	"loaderd/stream"
	"loaderd/stream/publish"
)

const (
	vocabulary  = 50_257
	fingerprint = "bench"
)

// openServing starts a daemon in this process, over documents of tokens, and waits until it has planned the steps.
// Every worker is a reader with a separate connection that reads all of them. The readers' CPU time in this process
// counts too.
func openServing(ctx context.Context, steps uint64) (m measured, err error) {
	folder, err := os.MkdirTemp("", "loaderd-cores")
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	c := config.Default()
	c.Stream.Dir, c.Stream.Listen, c.Flight.Listen, c.HTTP.Listen = folder, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Flight.Insecure = true // its readers are in this process
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: fingerprint, VocabSize: vocabulary,
		End: config.None, Pad: "0"}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if err := fill(ctx, c, int64(steps)*c.Plan.MaxStepTokens(), log); err != nil {
		return m, err
	}
	d, err := daemon.Start(ctx, c, log)
	if err != nil {
		return m, err
	}
	read := func(int) (size int64, err error) {
		client, err := flightclient.Open(d.FlightURI(), flightclient.Options{Window: flightclient.BulkWindow})
		if err != nil {
			return 0, err
		}
		err = client.Read(ctx, api.Ticket{World: 1, Steps: steps}, func(b flightclient.Batch) error {
			size += int64(len(b.InputIDs)) * slotBytes
			return nil
		})
		return size, errors.Join(err, client.Close())
	}
	m.do = func(workers int) (spent, error) { return together(workers, read) }
	m.close = func() error { return errors.Join(d.Stop(ctx), os.RemoveAll(folder)) }
	if _, err = read(0); err != nil { // waits until the steps are planned
		return m, errors.Join(err, d.Stop(ctx))
	}
	return m, nil
}

// slotBytes is the number of bytes of a token in a batch: its id and its segment id.
const slotBytes = 4 + 2

// fill publishes documents with more than the given tokens, because documents left in the pool are never served.
func fill(ctx context.Context, c config.Config, tokens int64, log *slog.Logger) (err error) {
	store, err := stream.Open(ctx, c.Stream, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := publish.New(ctx, store, "bench", publish.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	const waiting = 20_000 // maximum documents in pool, holdback and window
	documents := lengths.LogNormal(waiting+int(tokens/500), 1)
	var ids []int32
	for i, n := range documents {
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
	_, err = p.Flush(ctx)
	return err
}
