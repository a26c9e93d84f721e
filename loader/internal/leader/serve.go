package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/internal/event"
	"loaderd/loader/backend"
	"loaderd/loader/internal/feed"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// writeGrace bounds how long a stop waits for the plan log.
const writeGrace = 5 * time.Second

// Serve plans until ctx is done or a permanent error occurs, which it returns.
func (l *Leader) Serve(ctx context.Context) error {
	if l.restorer.isNewRun {
		if err := l.createRun(ctx); err != nil {
			return fmt.Errorf("begin run %s: %w", l.setup.Name, err)
		}
	}
	if err := l.beginTerm(ctx); err != nil {
		return fmt.Errorf("begin to lead run %s: %w", l.setup.Name, err)
	}
	stopped := ctx.Done()
	g, ctx := errgroup.WithContext(ctx)
	// Writer and uploads continue for writeGrace after ctx is done, to store what the loop has decided. A graceful stop
	// loses no planned step.
	writing, stopWriting := withGracePeriod(ctx, writeGrace)
	defer stopWriting()
	uploading, stopUploading := withGracePeriod(ctx, writeGrace)
	defer stopUploading()
	writes, written := make(chan planWrite, 64), make(chan struct{})
	documents := feed.New(ctx, l.setup.Name, l.setup.Streams, l.status.onOpenAttempt, l.status.onOpened)
	defer documents.Close()
	if _, err := documents.Next(l.restorer.applier.Planner); err != nil { // no other part starts without documents
		return errors.Join(err, g.Wait())
	}
	uploads := newUploads(l.checkpoints)
	g.Go(func() error {
		defer close(uploads.uploads)
		defer close(written)
		err := l.writer.writeAll(writing, writes)
		if err != nil { // another process may write the plan, so no further checkpoint is stored
			stopUploading()
		}
		return err
	})
	g.Go(func() error {
		if err := uploads.run(uploading); uploading.Err() == nil {
			return err
		}
		return nil // what stopped it is the reason: the error of the writer, or ctx
	})
	g.Go(func() error { return l.retention.run(ctx, l.retention.grace(l.restorer.end.Steps)) })
	g.Go(func() error { return l.newMonitor().run(ctx) })
	g.Go(func() error { return l.sealNotifier.run(ctx, l.restorer.header) })
	g.Go(func() error { return l.newIntakeReporter().run(ctx) })
	g.Go(func() error { return l.length.Run(ctx) })
	g.Go(func() error {
		defer close(writes)
		queue := &recordQueue{tail: l.restorer.tail, writes: writes, writerDone: written}
		loop := l.newLoop(ctx, documents, queue, uploads)
		err := loop.run(ctx)
		select {
		case <-stopped:
			if errors.Is(err, errLoopStopped) { // a last checkpoint, so that the next start has nothing to replay
				err = errors.Join(err, loop.checkpointIfDue(ctx, true))
			}
		default:
		}
		return err
	})
	return g.Wait()
}

// createRun writes the header of a new run.
func (l *Leader) createRun(ctx context.Context) error {
	header := l.restorer.header
	if err := l.setup.Streams.PrepareRun(ctx, header); err != nil {
		return l.term.leadershipError(err)
	}
	b := planrecord.Encode(header)
	if err := l.writer.write(ctx, []planWrite{{records: [][]byte{b}}}); err != nil {
		return err
	}
	l.restorer.tail = planrecord.NewTail(1, b)
	l.setup.Log.Info("new run", event.RunStarted, "fingerprint", header.Fingerprint, "sources", len(header.Sources))
	return nil
}

// beginTerm begins a term, and makes it the only one that stores checkpoints and purges documents. The records up to
// the term are replayed, including those appended since the plan was opened. If other daemons have stored checkpoints
// since then, the planner is restored from the newest of the current ones: documents that an older one needs may have
// been purged.
func (l *Leader) beginTerm(ctx context.Context) error {
	if err := l.term.appendTerm(ctx); err != nil {
		return err
	}
	r, seen := l.restorer, l.checkpoints.list()
	stored, err := planview.ClaimCheckpoints(ctx, l.setup.Backends, l.term.position, r.isNewRun || r.end.Bare)
	if err != nil {
		return l.term.leadershipError(err)
	}
	first, err := l.setup.Streams.ClaimLowWatermarks(ctx, l.term.position, r.header)
	if err != nil {
		return l.term.leadershipError(err)
	}
	if !slices.EqualFunc(stored, seen, func(a, b backend.CheckpointInfo) bool { return a.Name == b.Name }) {
		if err := r.reopen(ctx, stored); err != nil {
			return err
		}
		l.setup.View.ApplyOpened(r.openedPlan())
	}
	return l.setup.View.UpdateOldest(ctx, first)
}

// newMonitor returns the monitor of the document streams.
func (l *Leader) newMonitor() *streamMonitor {
	s := &l.setup
	return &streamMonitor{
		header: l.restorer.header, firstDocuments: l.firstDocuments, streams: s.Streams, view: s.View, term: l.term,
		status: l.status,
		fills:  l.fills, length: l.length, requests: l.requests, neededStep: l.retention.neededStep, log: s.Log,
	}
}

// newIntakeReporter returns the reporter of what the run accepts.
func (l *Leader) newIntakeReporter() *intakeReporter {
	s := &l.setup
	return &intakeReporter{
		streams: s.Streams, view: s.View, header: l.restorer.header, tokenizer: s.Config.Tokenizer, status: l.status,
		demand: l.demand, log: s.Log,
	}
}

// withGracePeriod returns a context that is canceled a grace period after ctx.
func withGracePeriod(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}
