package arrowout

import (
	"context"
	"errors"
	"io"
	"time"

	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/session"
	"loaderd/internal/api"
	"loaderd/loader/document"
	"loaderd/loader/follower"
	"loaderd/loader/plan"
)

// outgoingBatch is one record batch that is sent to a reader.
type outgoingBatch struct {
	message         *batch.Message
	assemblyStart   time.Time // when its assembly started
	storedTimes     []int64   // as in assembly.Batch
	tracedDocuments []document.TracedDocument
	api.Metadata
}

// batchProducer turns the steps of a ticket into messages, one batch ahead. While gRPC sends a batch, reading waits for
// the next step, assembles its batch, and keeps it until the first is sent. So a slow client costs the memory of at
// most three batches, within the budget: one that gRPC writes, one that gRPC does not accept yet, and the next.
type batchProducer struct {
	run        Run
	ticket     parsedTicket
	encoder    *batch.Encoder
	batchBytes int // bytes per batch
	metrics    *metrics
	session    *session.Session
	tracker    ReadTracker // nil: nothing yields to readers
}

// readyWait is the longest wait for a step that counts as ready.
const readyWait = time.Millisecond

// produceBatches sends every batch to out. It returns nil after the last requested step or at the end of the run,
// otherwise the first error or the cause of ctx.
func (r *batchProducer) produceBatches(ctx context.Context, reader Reader, out chan<- outgoingBatch) error {
	place := rankIDOf(r.ticket.Ticket)
	for n := uint64(0); r.ticket.Steps == 0 || n < r.ticket.Steps; n++ {
		step, waited, err := r.nextStep(ctx, reader)
		if err != nil {
			r.metrics.observeWait(waited, nil)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.encoder.Sources.EnsureKnown(ctx, step); err != nil {
			r.metrics.observeWait(waited, nil)
			return err
		}
		if err := follower.CheckStepRows(step, place.World); err != nil { // a control made it so after the reader joined
			return err
		}
		first, rows := place.RowRange(len(step.Rows))
		parts := batch.Split(step, r.ticket.columns, first, rows, r.batchBytes)
		about := api.Metadata{Run: r.ticket.Run, Step: step.Index, Parts: len(parts)}
		batch.CountStep(&about, step, r.encoder.Sources)
		for i, p := range parts {
			about.Part = i
			s, err := r.assembleBatch(ctx, step, p, about, waited < readyWait)
			if i == 0 {
				r.metrics.observeWait(waited, s.tracedDocuments)
			}
			if err != nil {
				return err
			}
			select {
			case out <- s:
			case <-ctx.Done():
				s.message.Charge.Discard()
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// assembleBatch assembles one part of a step, once memory is available for it. ready reports whether the step was
// available when it was requested.
func (r *batchProducer) assembleBatch(ctx context.Context, step *plan.Step, p batch.Part,
	about api.Metadata, ready bool) (s outgoingBatch, err error) {
	start := time.Now()
	charge, err := r.session.Acquire(ctx, p.MemoryBound(step, r.ticket.columns))
	r.metrics.memoryWaitSeconds.Add(time.Since(start).Seconds())
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			charge.Discard()
		}
	}()
	if ready && r.tracker != nil {
		defer r.tracker.BeginRead()()
	}
	s.assemblyStart = time.Now()
	b, err := r.run.Assemble(ctx, step, p.First, p.Rows)
	if err != nil {
		return s, err
	}
	s.message, s.Metadata, err = r.encoder.Encode(b, about)
	b.Done() // the columns no longer refer to it
	if err != nil {
		return s, err
	}
	charge.Shrink(int64(s.message.Size()))
	s.message.Charge, s.storedTimes, s.tracedDocuments = charge, b.StoreTimes, b.TracedDocuments
	return s, nil
}

// nextStep waits for the next step, and returns the duration of the wait.
func (r *batchProducer) nextStep(ctx context.Context,
	reader Reader) (step *plan.Step, waited time.Duration, err error) {
	if err := reader.AwaitRoom(ctx); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	r.session.RecordWaitStart(start)
	step, err = reader.Next(ctx)
	now := time.Now()
	r.session.RecordStep(now, now.Sub(start))
	return step, now.Sub(start), err
}
