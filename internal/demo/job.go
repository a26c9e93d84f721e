// Package demo runs the whole pipeline on one machine: documents, a daemon with its NATS server, and the ranks of a
// job, each in a process. It kills a rank and the daemon, and compares what is read before and after.
package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/corpus"
	"loaderd/internal/daemon"
	"loaderd/internal/humanize"
	"loaderd/internal/publishing"
	"loaderd/loader"
)

// Options of a demo.
type Options struct {
	StartTime     time.Time         // start of the command
	Config        config.Config     // of the daemon
	Settings      []config.Override // that Config was made of
	FindDocuments func(context.Context) (Documents, error)
	World         int   // readers
	Limit         int64 // maximum number of documents to publish; 0 is all
	NoKill        bool  // do not kill anything
	LogBuffer     *LogBuffer
}

// Documents are the documents to publish.
type Documents struct {
	Inputs      []*corpus.Input
	Description string        // description for the user
	Format      corpus.Format // format in which they were read; empty is Auto
}

// What the demo kills, and when. A rank is killed between two checkpoints, so that steps are read again.
const (
	checkpointInterval = 16 // steps between two checkpoints of the job
	rankKilledAfter    = 20 // steps
	daemonKilledAfter  = 40 // steps, or at the end of a shorter run
)

// Requests of the daemon's statistics.
const (
	statsInterval = 200 * time.Millisecond
	statsTimeout  = 2 * time.Second
)

// Values of Kill.Process.
const (
	killedRank   = "rank"
	killedDaemon = "daemon"
)

// Kill is a process that was killed during the demo.
type Kill struct {
	Process string  `json:"process"` // rank or daemon
	Step    uint64  `json:"step"`    // steps that all ranks had finished
	Resumed uint64  `json:"resumed"` // first step that the ranks read afterwards
	Seconds float64 `json:"seconds"` // until the daemon served again; 0 for a rank
}

// Event is something that happened, for the user.
type Event struct {
	Elapsed time.Duration // since the start
	Text    string
}

// Job is the whole pipeline: documents, daemon, ranks.
type Job struct {
	Options

	mu         sync.Mutex // guards fields that are set while the job is watched
	documents  Documents  // zero before they are found
	daemon     *daemonProcess
	publishing *publishing.Session // nil before the connection exists
	pageLink   string              // link to the live page
	linkTime   time.Time           // time at which the link was made
	stats      loader.Stats        // the last ones that the daemon returned
	kills      []Kill
	events     []Event
	verifying  bool
	complete   bool
	readTime   time.Duration // until the ranks had read the last step; 0 before
	elapsed    time.Duration // of the whole job, set at its end

	daemonMu      sync.RWMutex // write-locked while the daemon is not running
	record        *record
	allPublished  atomic.Bool   // all documents are in the stream
	stepsCompared atomic.Uint64 // steps that one reader has read again
	firstBatch    atomic.Int64  // nanoseconds since StartTime, 0 before
}

// New returns a job that has not started.
func New(o Options) *Job { return &Job{Options: o, record: newRecord(o.Config.Plan)} }

// Run starts the daemon, publishes the documents, and returns when all ranks have read the last step and one reader has
// read all of them again. The daemon runs until Stop.
func (j *Job) Run(ctx context.Context) (err error) {
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.complete, j.elapsed = err == nil, time.Since(j.StartTime)
	}()
	if err := j.start(ctx); err != nil {
		return err
	}
	working, stopWatching := context.WithCancelCause(ctx)
	defer stopWatching(nil)
	go j.watch(working, stopWatching)
	if err := j.work(working); err != nil {
		if cause := context.Cause(working); cause != nil {
			return cause
		}
		return err
	}
	return j.awaitConservation(ctx)
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
		d, err := startDaemon(ctx, j.Config.Stream.Dir, j.Settings, j.LogBuffer)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.daemon = d
		return err
	})
	return both.Wait()
}

// work publishes and reads at the same time, and then reads everything again.
func (j *Job) work(ctx context.Context) error {
	parts, both := errgroup.WithContext(ctx)
	parts.Go(func() error {
		if err := j.publish(both, j.daemon.nats); err != nil {
			return err
		}
		j.daemonMu.RLock()
		defer j.daemonMu.RUnlock()
		// No documents will follow: the pool is flushed, and every rank has the same last step.
		_, err := j.daemon.client.Seal(both, "")
		return err
	})
	parts.Go(func() error { return j.readRun(both) })
	if err := parts.Wait(); err != nil {
		return err
	}
	j.mu.Lock()
	j.readTime = time.Since(j.StartTime)
	j.mu.Unlock()
	return j.verify(ctx)
}

// readRun reads the run with all ranks. After a rank was killed, the job resumes at its checkpoint.
func (j *Job) readRun(ctx context.Context) error {
	job := &ranks{options: j.rankOptions(j.World), record: j.record, afterStep: j.afterStep}
	from := uint64(0)
	for {
		err := job.read(ctx, from)
		if !errors.Is(err, errKilled) {
			return err
		}
		finished, _ := j.record.readSteps()
		from = finished - finished%checkpointInterval
		j.addKill(Kill{Process: killedRank, Step: finished, Resumed: from},
			fmt.Sprintf("killed rank %d after step %d; the job resumes at step %d", j.World-1, finished-1, from))
	}
}

// afterStep kills what is to be killed after a step.
func (j *Job) afterStep(ctx context.Context, step uint64) (killRank bool, err error) {
	j.firstBatch.CompareAndSwap(0, int64(time.Since(j.StartTime)))
	switch {
	case j.NoKill:
	case !j.hasKilled(killedRank) && step+1 >= rankKilledAfter:
		return true, nil
	case !j.hasKilled(killedDaemon) && step+1 >= daemonKilledAfter:
		return false, j.killDaemon(ctx)
	}
	return false, nil
}

func (j *Job) hasKilled(process string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.kills, func(k Kill) bool { return k.Process == process })
}

// killDaemon kills the daemon and starts it again over the same data.
func (j *Job) killDaemon(ctx context.Context) error {
	j.daemonMu.Lock()
	defer j.daemonMu.Unlock()
	began := time.Now()
	if err := j.daemon.kill(); err != nil {
		return err
	}
	if err := j.daemon.restart(ctx); err != nil {
		return err
	}
	steps, _ := j.record.readSteps()
	took := time.Since(began)
	j.addKill(Kill{Process: killedDaemon, Step: steps, Resumed: steps, Seconds: took.Seconds()},
		fmt.Sprintf("killed the daemon after step %d; a new one serves after %s", int64(steps)-1, humanize.Time(took)))
	return nil
}

// verify reads all steps again with a single reader, which must get the bytes that the ranks got together.
func (j *Job) verify(ctx context.Context) error {
	if j.NoKill {
		return nil
	}
	if !j.hasKilled(killedDaemon) {
		if err := j.killDaemon(ctx); err != nil {
			return err
		}
	}
	j.mu.Lock()
	j.verifying = true
	j.mu.Unlock()
	reader := &ranks{options: j.rankOptions(1), record: j.record,
		afterStep: func(_ context.Context, step uint64) (bool, error) {
			j.stepsCompared.Store(step + 1)
			return false, nil
		}}
	if err := reader.read(ctx, 0); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	return nil
}

func (j *Job) rankOptions(world int) RankOptions {
	return RankOptions{URI: j.daemon.addresses.Flight, DataDir: j.Config.Stream.Dir, World: world}
}

func (j *Job) addKill(k Kill, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kills = append(j.kills, k)
	j.events = append(j.events, Event{Elapsed: time.Since(j.StartTime), Text: text})
}

// watch updates the statistics, and calls failed if the daemon ends unexpectedly.
func (j *Job) watch(ctx context.Context, failed context.CancelCauseFunc) {
	tick := time.NewTicker(statsInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		j.daemonMu.RLock()
		select {
		case <-j.daemon.ended:
			failed(fmt.Errorf("the daemon ended: %w", j.daemon.endedError()))
		default:
			_, _ = j.updateStats(ctx) // the next call may succeed
		}
		j.daemonMu.RUnlock()
	}
}

// updateStats requests the statistics of the run from the daemon.
func (j *Job) updateStats(ctx context.Context) (s loader.Stats, err error) {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	if err := j.daemon.client.Do(ctx, "stats", api.Run{}, &s); err != nil {
		return s, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stats = s
	return s, nil
}

// linkLifetime is the time for which a link to the page is shown before it is replaced, because a link is valid for
// some minutes only.
const linkLifetime = 5 * time.Minute

// freshLink returns a link to the live page. The job must have a daemon and be locked.
func (j *Job) freshLink() string {
	if time.Since(j.linkTime) > linkLifetime {
		link, err := daemon.PageLink(j.Config.Stream.Dir, j.daemon.addresses.HTTP)
		if err != nil { // the page does not need one
			link = j.daemon.addresses.HTTP
		}
		j.pageLink, j.linkTime = link, time.Now()
	}
	return j.pageLink
}

// replayTimeout bounds the time in which a restarted daemon restores its state. Until then it delivers planned steps,
// and its statistics are incomplete.
const replayTimeout = 30 * time.Second

// awaitConservation waits until the daemon's statistics pass checkConservation, or returns the last difference.
func (j *Job) awaitConservation(ctx context.Context) error {
	steps, tokens := j.record.readSteps()
	check := func() (struct{}, error) {
		stats, err := j.updateStats(ctx)
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, checkConservation(stats, j.progress().Offered, steps, tokens)
	}
	_, err := backoff.Retry(ctx, check, backoff.WithBackOff(backoff.NewConstantBackOff(50*time.Millisecond)),
		backoff.WithMaxElapsedTime(replayTimeout))
	return err
}

// checkConservation checks that the plan contains every published document, and that the ranks received all steps and
// every token of every document once.
func checkConservation(s loader.Stats, published int64, steps uint64, tokens int64) error {
	if seen := s.Documents + s.Skipped.Total(); seen != published {
		return fmt.Errorf("check what arrived: %d documents were published, the plan saw %d", published, seen)
	}
	if want := s.Tokens - s.Dropped + s.Repeated; tokens != want || steps != s.Planned {
		return fmt.Errorf("check what arrived: readers got %d tokens in %d steps, the plan has %d in %d", tokens, steps,
			want, s.Planned)
	}
	return nil
}

// KeepServing keeps the daemon running until ctx ends or the daemon fails.
func (j *Job) KeepServing(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-j.daemon.ended:
		return fmt.Errorf("the daemon ended: %w", j.daemon.endedError())
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
	return d.stop(j.Config.Shutdown.Timeout)
}
