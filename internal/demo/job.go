// Package demo runs the whole pipeline in one process: documents, a daemon with its NATS server, and readers that
// read in lockstep.
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
	StartTime     time.Time     // start of the command
	Config        config.Config // of the daemon
	FindDocuments func(context.Context) (Documents, error)
	World         int   // readers
	Limit         int64 // maximum number of documents to publish; 0 is all
	Log           *slog.Logger
	LogBuffer     *LogBuffer // what Log writes to
}

// Documents are the documents to publish.
type Documents struct {
	Inputs      []*corpus.Input
	Description string        // description for the user
	Format      corpus.Format // format in which they were read; empty is Auto
}

// Job is the whole pipeline: documents, daemon, readers.
type Job struct {
	Options

	mu         sync.Mutex // guards fields that are set while the job is watched
	documents  Documents  // zero before they are found
	daemon     *daemon.Daemon
	publishing *publishing.Session // nil before the connection exists
	ranks      *ranks
	pageLink   string    // link to the live page
	linkTime   time.Time // time at which page was made
	complete   bool
	elapsed    time.Duration // of the whole job, set at its end

	allPublished atomic.Bool  // all documents are in the stream
	firstBatch   atomic.Int64 // nanoseconds since Began, 0 before
}

// New returns a job that has not started.
func New(o Options) *Job { return &Job{Options: o} }

// Run starts the daemon, publishes the documents, and returns when all ranks have read the last step. The daemon runs
// until Stop.
func (j *Job) Run(ctx context.Context) (err error) {
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.complete, j.elapsed = err == nil, time.Since(j.StartTime)
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
		_, err := d.Run().Seal(working) // no more documents: the pool is flushed, and every rank has the same last step
		return err
	})
	parts.Go(func() error { return readers.readRun(working, d.FlightURI()) })
	err = parts.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return checkConservation(d.Run().Stats(), j.progress().Offered, readers)
}

// start finds the documents and starts the daemon concurrently.
func (j *Job) start(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		found, err := j.FindDocuments(ctx)
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
			j.firstBatch.Store(int64(time.Since(j.StartTime)))
		})
		return nil
	})
	return both.Wait()
}

// linkLifetime is the time for which a link to the page is shown before it is replaced, because a link is valid for
// some minutes only.
const linkLifetime = 5 * time.Minute

// freshLink returns a link to the live page. The job must have a daemon and be locked.
func (j *Job) freshLink() string {
	if time.Since(j.linkTime) > linkLifetime {
		j.pageLink, j.linkTime = j.daemon.PageLink(), time.Now()
	}
	return j.pageLink
}

// checkConservation checks that the plan contains every published document, and that the readers received all steps and
// every token of every document once.
func checkConservation(s loader.Stats, published int64, r *ranks) error {
	if seen := s.Documents + s.Skipped.Total(); seen != published {
		return fmt.Errorf("check what arrived: %d documents were published, the plan saw %d", published, seen)
	}
	if want := s.Tokens - s.Dropped + s.Repeated; r.tokens.Load() != want || r.steps.Load() != s.Planned {
		return fmt.Errorf("check what arrived: readers got %d tokens in %d steps, the plan holds %d in %d", r.tokens.Load(),
			r.steps.Load(), want, s.Planned)
	}
	return nil
}

// KeepServing keeps the daemon running until ctx ends or the daemon fails.
func (j *Job) KeepServing(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- j.daemon.Wait() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// Stop stops the daemon within the configured time.
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
