// Pull measures a run that fetches its own documents: a corpus that a server of this process makes up goes through a
// stream that holds a part of it, and is trained on over Flight by a reader that commits, so that what is behind it is
// purged. Every document is counted. A smaller run over documents that were published beforehand is the baseline.
//
//	bin/pull --bytes 2e9 --window 200e6
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/reader"
	"loaderd/loader/backend"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/publish"
	"loaderd/tokenizer"
)

type figures struct {
	Documents    int64   `json:"documents"`
	Bytes        int64   `json:"bytes"`
	Window       int64   `json:"stream_max_bytes,omitempty"`
	Highest      int64   `json:"stream_bytes_highest"`
	Steps        int     `json:"steps"`
	Tokens       int64   `json:"tokens"`
	Missing      int64   `json:"documents_missing"`
	Twice        int64   `json:"documents_twice"`
	Elsewhere    int64   `json:"documents_elsewhere"` // under another's sequence, or of nowhere
	Seconds      float64 `json:"seconds"`
	MBs          float64 `json:"mb_per_second"`
	FirstStep    float64 `json:"first_step_seconds"`
	PublishingMB float64 `json:"published_mb_per_second,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pull:", err)
		os.Exit(1)
	}
}

func run() error {
	size := flag.Float64("bytes", 20e6, "bytes of the corpus")
	window := flag.Float64("window", 8e6, "bytes that the stream may hold")
	baseline := flag.Float64("baseline", 0, "bytes of the run over published documents; 0 is a tenth of the corpus")
	seed := flag.Uint64("seed", 1, "of the corpus")
	name := flag.String("tokenizer", "gpt2", "built-in tokenizer")
	flag.Parse()
	if *baseline <= 0 {
		*baseline = *size / 10
	}
	model, err := tokenizer.Load(*name, tokenizer.Options{})
	if err != nil {
		return err
	}
	b := bench{model: model, window: int64(*window),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	ctx := context.Background()
	var out struct {
		Pulled    figures `json:"pulled"`
		Published figures `json:"published_before"`
	}
	if out.Published, err = b.published(ctx, corpusOf(int64(*baseline), *seed)); err != nil {
		return fmt.Errorf("published before: %w", err)
	}
	if out.Pulled, err = b.pulled(ctx, corpusOf(int64(*size), *seed)); err != nil {
		return fmt.Errorf("pulled: %w", err)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	for what, f := range map[string]figures{"pulled": out.Pulled, "published before": out.Published} {
		if f.Missing+f.Twice+f.Elsewhere > 0 {
			return fmt.Errorf("%s: %d documents are missing, %d are there twice, %d are elsewhere", what, f.Missing, f.Twice,
				f.Elsewhere)
		}
	}
	if out.Pulled.Highest > b.window {
		return fmt.Errorf("the stream held %d bytes, more than its %d", out.Pulled.Highest, b.window)
	}
	return nil
}

type bench struct {
	model  *tokenizer.Model
	window int64
	log    *slog.Logger
}

// settings are those of both runs but for the stream. What the planner holds back, plans ahead and could plan again is
// a small part of the window.
func (b *bench) settings(dir string) config.Config {
	c := config.Default()
	c.Stream.Dir, c.Stream.Listen, c.Flight.Listen, c.HTTP.Listen = dir, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Flight.Insecure = true // its readers are in this process
	c.Stream.DeadLetterBytes, c.Stream.PlanBytes = 64<<20, 1<<30
	c.Tokenizer.Name = b.model.Name()
	const tokenBytes = 4 // of text, about
	documents := int(b.window / lineBytes)
	c.Plan.Packing.Pool = min(c.Plan.Packing.Pool, documents/16)
	c.Plan.Packing.MaxAge = 4 * c.Plan.Packing.Pool
	c.Plan.Shuffle.Window = min(c.Plan.Shuffle.Window, documents/32)
	c.Plan.Steps.Rows = min(c.Plan.Steps.Rows, 16)
	step := int64(c.Plan.Steps.Rows * c.Plan.Packing.Buckets[0] * tokenBytes)
	c.Serve.Ahead = int(min(int64(c.Serve.Ahead), max(2, b.window/8/step)))
	c.Serve.Checkpoint = int(min(int64(c.Serve.Checkpoint), max(2, b.window/32/step)))
	return c
}

// pulled has a daemon fetch the corpus through the window.
func (b *bench) pulled(ctx context.Context, m madeUp) (f figures, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return f, err
	}
	server := http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer func() { err = errors.Join(err, server.Close()); serving.Wait() }()
	dir, err := os.MkdirTemp("", "loaderd-bench")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := b.settings(dir)
	c.Stream.MaxBytes, c.Serve.Release = b.window, backend.ReleasePurge
	c.Pull.From = m.addresses("http://" + l.Addr().String())
	f, err = b.train(ctx, c, m, false)
	f.Window = b.window
	return f, err
}

// published publishes the corpus into a stream that holds it, and reads it then.
func (b *bench) published(ctx context.Context, m madeUp) (f figures, err error) {
	dir, err := os.MkdirTemp("", "loaderd-bench")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := b.settings(dir)
	c.Stream.MaxBytes = 2*m.bytes() + 64<<20
	began := time.Now()
	if err := b.publish(ctx, c, m); err != nil {
		return f, err
	}
	publishing := time.Since(began).Seconds()
	f, err = b.train(ctx, c, m, true)
	f.PublishingMB = float64(m.bytes()) / 1e6 / publishing
	return f, err
}

func (b *bench) publish(ctx context.Context, c config.Config, m madeUp) (err error) {
	store, err := stream.Open(ctx, c.Stream, b.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := publish.New(ctx, store, "bench", publish.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range m.documents {
		if err := p.Publish(ctx, stream.Message{Subject: "docs.bench", ID: fmt.Sprint(i),
			Data: text(m.line(i))}); err != nil {
			return err
		}
	}
	_, err = p.Flush(ctx)
	return err
}

const (
	// job is the name of the reader, which also commits: documents of a job that does not are retained.
	job = "train"
	// commitEvery is how many steps a reader takes from one commit to the next.
	commitEvery = 8
)

// train starts a daemon and reads its run to the end, counting documents.
func (b *bench) train(ctx context.Context, c config.Config, m madeUp, seal bool) (f figures, err error) {
	f.Documents, f.Bytes = m.documents, m.bytes()
	counted, err := newCount(m.documents, b.model)
	if err != nil {
		return f, err
	}
	began := time.Now()
	d, err := daemon.Start(ctx, c, b.log)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, d.Stop(ctx)) }()
	if seal {
		if _, err := d.Run().Seal(ctx); err != nil {
			return f, err
		}
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { f.Highest, err = highest(watching, d.Store()) })
	readErr := b.read(ctx, d, &f, counted, began)
	f.Seconds = time.Since(began).Seconds()
	stop()
	watch.Wait()
	f.MBs = float64(f.Bytes) / 1e6 / f.Seconds
	f.Missing, f.Twice = counted.result()
	f.Tokens, f.Elsewhere = counted.seen, counted.misplaced+counted.foreign
	return f, errors.Join(err, readErr)
}

func (b *bench) read(ctx context.Context, d *daemon.Daemon, f *figures, counted *count, began time.Time) error {
	client, err := reader.Open(d.FlightURI(), reader.Options{})
	if err != nil {
		return err
	}
	err = client.Read(ctx, api.Ticket{Job: job, Columns: []string{"input_ids", "documents"}},
		func(batch reader.Batch) error {
			if f.Steps++; f.Steps == 1 {
				f.FirstStep = time.Since(began).Seconds()
			}
			if err := counted.take(batch); err != nil || f.Steps%commitEvery > 0 {
				return err
			}
			return client.Do(ctx, "commit", map[string]any{"step": f.Steps, "keeper": job}, nil)
		})
	return errors.Join(err, client.Close())
}

// highest looks a hundred times a second how many bytes the document stream holds, until ctx ends.
func highest(ctx context.Context, store *stream.Store) (most int64, err error) {
	st, err := store.JetStream().Stream(ctx, store.Config().Name)
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := st.Info(ctx)
		switch {
		case ctx.Err() != nil:
			return most, nil
		case err == nil:
			most = max(most, int64(info.State.Bytes))
		case !conn.Transient(err): // a machine that does much else may not answer for seconds
			return most, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return most, nil
		}
	}
}
