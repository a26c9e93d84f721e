package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/internal/config"
	"loaderd/internal/corpus"
	"loaderd/internal/daemon"
	"loaderd/loader"
)

// demoJob is the whole path: documents, daemon, readers.
type demoJob struct {
	began  time.Time
	config config.Config
	inputs []*corpus.Input
	from   string // what the documents are, for people
	world  int
	limit  int64
	log    *slog.Logger
	notes  *demoLog

	mu        sync.Mutex // guards what comes up while the job is watched
	daemon    *daemon.Daemon
	publisher *demoPublisher
	ranks     *demoRanks
	complete  bool
	elapsed   time.Duration // of the whole job, once it has ended

	firstBatch atomic.Int64 // nanoseconds from began, 0 before
}

// run goes from nothing to the last step read by all ranks. The daemon stays up until stop.
func (j *demoJob) run(ctx context.Context) (err error) {
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.complete, j.elapsed = err == nil, time.Since(j.began)
	}()
	d, err := daemon.Start(ctx, j.config, j.log)
	if err != nil {
		return err
	}
	publisher := &demoPublisher{inputs: j.inputs, limit: j.limit}
	ranks := &demoRanks{world: j.world, rows: map[int]int{}, began: func() { j.firstBatch.Store(int64(time.Since(j.began))) }}
	packing := j.config.Plan.Packing
	for i, rows := range j.config.Plan.Steps.PerBucket(packing.Buckets) {
		ranks.rows[packing.Buckets[i]] = rows
	}
	j.mu.Lock()
	j.daemon, j.publisher, j.ranks = d, publisher, ranks
	j.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(d.Wait()) }() // ends with the daemon
	parts, working := errgroup.WithContext(ctx)
	parts.Go(func() error {
		if err := publisher.run(working, d.Store().ClientURL(), j); err != nil {
			return err
		}
		_, err := d.Run().Seal(working) // no more documents: the pool drains, and every rank sees the same end
		return err
	})
	parts.Go(func() error { return ranks.read(working, d.FlightURI()) })
	err = parts.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return conserved(d.Run().Stats(), publisher.documents.Load(), ranks)
}

// conserved checks that the plan has every document that was published, and that the readers got all of its steps and every token
// of every document once.
func conserved(s loader.Stats, published int64, r *demoRanks) error {
	if seen := s.Documents + s.Empty + s.Undecoded + s.Duplicates; seen != published {
		return fmt.Errorf("check what arrived: %d documents were published, the plan saw %d", published, seen)
	}
	if want := s.Tokens - s.Dropped + s.Repeated; r.tokens.Load() != want || r.steps.Load() != s.Planned {
		return fmt.Errorf("check what arrived: readers got %d tokens in %d steps, the plan holds %d in %d", r.tokens.Load(), r.steps.Load(), want, s.Planned)
	}
	return nil
}

// stay serves until ctx ends or the daemon fails.
func (j *demoJob) stay(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- j.daemon.Wait() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// stop ends the daemon within the configured time.
func (j *demoJob) stop() error {
	j.mu.Lock()
	d := j.daemon
	j.mu.Unlock()
	if d == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.config.Shutdown.Timeout)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		return fmt.Errorf("stop daemon: %w", err)
	}
	return nil
}

// demoLog keeps what the daemon logs while a screen is in the way, the newest last.
type demoLog struct {
	mu   sync.Mutex
	held bytes.Buffer
	line string
}

// demoLogLimit bounds what is kept.
const demoLogLimit = 64 << 10

func (l *demoLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = string(bytes.TrimSpace(p))
	if l.held.Len()+len(p) <= demoLogLimit {
		l.held.Write(p)
	}
	return len(p), nil
}

// take returns what has been logged since it was called last.
func (l *demoLog) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := bytes.Clone(l.held.Bytes())
	l.held.Reset()
	return out
}

// last returns the newest line.
func (l *demoLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}

// errStopped says that the user stopped the demo at the live view.
var errStopped = errors.New("stopped")
