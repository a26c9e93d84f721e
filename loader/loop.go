package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// loop feeds the planner. It is the only goroutine that touches the planner and that decides what is appended to the plan log.
type loop struct {
	run       *Run
	planner   *Planner
	replay    *replay // nil once the log's end is reached
	pending   []control
	tail      logTail
	keepers   Keepers
	writes    chan<- write
	uploads   *uploads
	askers    []request // of checkpoints, while another one is on its way
	endLogged bool
	ended     bool
	saved     uint64 // step of the last checkpoint
	heard     bool   // whether documents say what they are about has been looked at

	duplicates duplicates
}

// Serve plans until ctx is done or the run fails. It returns nil in the first case. After the end of the stream it stays to answer
// requests. Call it once.
func (r *Run) Serve(ctx context.Context) error {
	var telling sync.WaitGroup
	tell, stop := context.WithCancel(ctx)
	telling.Go(func() { r.tellWaits(tell) })
	err := r.serve(ctx)
	stop()
	telling.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	failed := err
	if failed == nil {
		failed = &Error{Reason: NotLeading, Message: "the daemon is shutting down", Do: "reconnect when it is back"}
	}
	r.update(func() { r.failed = r.failure(failed) })
	return err
}

func (r *Run) serve(ctx context.Context) error {
	if r.fresh {
		if err := r.begin(ctx); err != nil {
			return fmt.Errorf("begin run %s: %w", r.name, err)
		}
	}
	source, err := r.edges.Documents.Read(ctx, r.planner.Cursor()+1)
	if err != nil {
		return fmt.Errorf("read documents: %w", err)
	}
	defer source.Close()
	r.update(func() { r.source = source })
	if err := r.found.within(source.Status().Last, r.name); err != nil {
		return err
	}

	// What the loop decided is still written after ctx is done, within writeGrace: a graceful stop loses no planned step.
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(writeGrace, stopWriting) })()

	stopped := ctx.Done()
	g, ctx := errgroup.WithContext(ctx)
	writes := make(chan write, 64)
	documents := make(chan Document)
	uploads := newUploads()
	uploading, stopUploading := context.WithCancel(writing)
	defer stopUploading()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(writeGrace, stopUploading) })()
	g.Go(func() error {
		defer close(uploads.queue)
		err := r.write(writing, writes)
		if err != nil { // of a plan that someone else may write, nothing more is stored
			stopUploading()
		}
		return err
	})
	g.Go(func() error { r.upload(uploading, uploads); return nil })
	g.Go(func() error { return pump(ctx, source, documents) })
	g.Go(func() error { return r.release(ctx) })
	g.Go(func() error { return r.watch(ctx) })
	g.Go(func() error { return r.announce(ctx) })
	g.Go(func() error {
		defer close(writes)
		l := &loop{run: r, planner: r.planner, pending: r.pending, tail: r.tail, keepers: maps.Clone(r.keepers), writes: writes, uploads: uploads, saved: r.planner.Next(), endLogged: r.found.ended,
			replay: replayFrom(ctx, r.edges.Plan, r.tail.position+1, r.planner.Next())}
		l.duplicates.count = r.planner.counts.Duplicates
		err := l.turn(ctx, documents)
		select {
		case <-stopped:
			if errors.Is(err, errBetween) { // so that the next start has nothing to re-plan
				err = errors.Join(err, l.checkpoint(writing, true))
			}
		default:
		}
		return err
	})
	return g.Wait()
}

// writeGrace bounds how long a stop waits for the plan log.
const writeGrace = 5 * time.Second

// pump moves documents from the source to the loop, which must not block in the source while a control is due.
func pump(ctx context.Context, source Source, out chan<- Document) error {
	for {
		d, err := source.Next(ctx)
		if err != nil {
			return fmt.Errorf("read documents: %w", err)
		}
		select {
		case out <- d:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// statsInterval is how often Stats is refreshed.
const statsInterval = 200 * time.Millisecond

// errBetween says that the loop stopped between two inputs: everything that the planner made has been handed to the writer.
var errBetween = fmt.Errorf("loop stopped: %w", context.Canceled)

// turn is the loop itself: one document, request or control after the other.
func (l *loop) turn(ctx context.Context, documents <-chan Document) error {
	r := l.run
	r.snapshot(l.planner)
	refresh := time.NewTicker(statsInterval)
	defer refresh.Stop()
	l.checkSilent() // of a checkpoint
	for {
		if err := l.prepare(); err != nil {
			return err
		}
		if !l.ended {
			if err := l.due(ctx); err != nil {
				return err
			}
		}
		feed, requests := documents, r.requests
		if l.ended || (l.replay == nil && l.planner.Next() >= r.limit()) {
			feed = nil // readers have enough steps before them
		}
		if l.replay != nil {
			requests = nil // they are recorded behind what the log holds
		}
		select {
		case <-ctx.Done():
			return errBetween
		case d := <-feed:
			if err := l.add(ctx, d); err != nil {
				return err
			}
		case q := <-requests:
			if err := l.handle(ctx, q); err != nil {
				return err
			}
		case <-l.uploads.ready:
			if err := errors.Join(l.answer(ctx), l.checkpoint(ctx, false)); err != nil {
				return err
			}
		case <-r.asked:
		case <-refresh.C:
			r.snapshot(l.planner)
			if l.replay == nil {
				l.duplicates.tell(time.Now(), r.config.Documents.Dedupe, r.log)
			}
			if err := l.linger(ctx); err != nil {
				return err
			}
		}
	}
}

func (l *loop) add(ctx context.Context, d Document) error {
	if d.Skip == "" {
		l.run.assembler.cache.put(d.Sequence, d.Tokens)
	}
	steps, err := l.planner.Add(arrival(d))
	if err != nil {
		return err
	}
	l.duplicates.saw(d.Sequence, l.planner.counts.Duplicates)
	l.checkSilent()
	if err := l.emit(ctx, steps); err != nil {
		return err
	}
	return l.checkpoint(ctx, false)
}

// prepare reads the next step of the log during a replay, and ends the replay behind the last one.
func (l *loop) prepare() error {
	if l.replay == nil {
		return nil
	}
	if err := l.replay.prepare(l.replayed); err != nil {
		return err
	}
	if l.replay.done {
		if l.replay.tail.position > 0 {
			l.tail = l.replay.tail
		}
		l.replay = nil
		l.duplicates.replayed()
		l.ended = l.ended || l.endLogged && len(l.pending) == 0 // the checkpoint was of the end
		l.announce()
		l.run.update(func() { l.run.replays = false })
	}
	return nil
}

// emit appends steps to the plan log, or compares them with what it holds.
func (l *loop) emit(ctx context.Context, steps []Step) error {
	if len(steps) > 0 {
		l.run.snapshot(l.planner) // what a reader of a step asks for next is not older than the step
	}
	for i := range steps {
		s := steps[i]
		if err := l.prepare(); err != nil {
			return err
		}
		if l.replay != nil {
			if err := l.replay.match(&s); err != nil {
				return err
			}
			if s.Index >= l.run.Info().Planned { // another process appended it after Open
				l.run.publish(&s)
			}
			continue
		}
		records, err := encodeStep(&s, l.run.edges.Plan.MaxRecord())
		if err != nil {
			return err
		}
		if err := l.append(ctx, write{records: records, step: &s}); err != nil {
			return err
		}
	}
	return nil
}
