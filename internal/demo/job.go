// Package demo runs the whole path in one process: documents, a daemon with its NATS server, and readers that go from
// step to step together.
package demo

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/internal/config"
	"loaderd/internal/corpus"
	"loaderd/internal/daemon"
	"loaderd/internal/publishing"
	"loaderd/loader"
)

// Options of a demo.
type Options struct {
	Began  time.Time     // of the command
	Config config.Config // of the daemon
	Find   func(context.Context) (Documents, error)
	World  int   // readers
	Limit  int64 // publish at most so many documents; 0 is all
	Log    *slog.Logger
	Notes  *Notes // what Log writes to
}

// Documents are what is published.
type Documents struct {
	Inputs []*corpus.Input
	From   string        // what they are, for people
	Format corpus.Format // as which they were read; empty is Auto
}

// Job is the whole path: documents, daemon, readers.
type Job struct {
	Options

	mu         sync.Mutex // guards what comes up while the job is watched
	documents  Documents  // nothing before they are found
	daemon     *daemon.Daemon
	publishing *publishing.Publishing // nil before it has connected
	ranks      *ranks
	page       string    // link to the live page
	linked     time.Time // when it was made
	complete   bool
	elapsed    time.Duration // of the whole job, once it has ended

	published  atomic.Bool  // every document is in the stream
	firstBatch atomic.Int64 // nanoseconds from the beginning, 0 before
}

// New prepares a job.
func New(o Options) *Job { return &Job{Options: o} }

// Run goes from nothing to the last step read by all ranks. The daemon stays up until Stop.
func (j *Job) Run(ctx context.Context) (err error) {
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.complete, j.elapsed = err == nil, time.Since(j.Began)
	}()
	if err := j.start(ctx); err != nil {
		return err
	}
	d, readers := j.daemon, j.ranks

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(d.Wait()) }() // ends with the daemon
	parts, working := errgroup.WithContext(ctx)
	parts.Go(func() error {
		if err := j.publish(working, d.Store().ClientURL()); err != nil {
			return err
		}
		_, err := d.Run().Seal(working) // no more documents: the pool drains, and every rank sees the same end
		return err
	})
	parts.Go(func() error { return readers.read(working, d.FlightURI()) })
	err = parts.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return conserved(d.Run().Stats(), j.progress().Offered, readers)
}

// start finds the documents while the daemon starts.
func (j *Job) start(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		found, err := j.Find(ctx)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.documents = found
		return err
	})
	both.Go(func() error {
		d, err := daemon.Start(ctx, j.Config, j.Log)
		if err != nil {
			return err
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.daemon, j.ranks = d, newRanks(j.World, j.Config.Stream.Dir, j.Config.Plan, func() {
			j.firstBatch.Store(int64(time.Since(j.Began)))
		})
		return nil
	})
	return both.Wait()
}

// linkFor is how long a link to the page is shown before another one is made, as it is good for some minutes only.
const linkFor = 5 * time.Minute

// link is a link to the live page. The job has a daemon, and is locked.
func (j *Job) link() string {
	if time.Since(j.linked) > linkFor {
		j.page, j.linked = j.daemon.PageLink(), time.Now()
	}
	return j.page
}

// conserved checks that the plan has every document that was published, and that the readers got all of its steps and
// every token of every document once.
func conserved(s loader.Stats, published int64, r *ranks) error {
	if seen := s.Documents + s.Skipped.Total(); seen != published {
		return fmt.Errorf("check what arrived: %d documents were published, the plan saw %d", published, seen)
	}
	if want := s.Tokens - s.Dropped + s.Repeated; r.tokens.Load() != want || r.steps.Load() != s.Planned {
		return fmt.Errorf("check what arrived: readers got %d tokens in %d steps, the plan holds %d in %d", r.tokens.Load(),
			r.steps.Load(), want, s.Planned)
	}
	return nil
}

// Stay serves until ctx ends or the daemon fails.
func (j *Job) Stay(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- j.daemon.Wait() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// Stop ends the daemon within the configured time.
func (j *Job) Stop() error {
	j.mu.Lock()
	d := j.daemon
	j.mu.Unlock()
	if d == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Config.Shutdown.Timeout)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		return fmt.Errorf("stop daemon: %w", err)
	}
	return nil
}
