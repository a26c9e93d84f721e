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
	"loaderd/loader/plan"
)

// sending is one record batch that is sent to a reader.
type sending struct {
	message *batch.Message
	began   time.Time // when its assembly started
	begins  []int64   // as in assembly.Batch
	traced  []document.Traced
	api.Metadata
}

// reading turns the steps of a ticket into messages, one batch ahead. While gRPC sends a batch, reading waits for the
// next step, assembles its batch, and keeps it until the first is sent. So a slow client costs the memory of at most
// three batches, within the budget: one that gRPC writes, one that gRPC does not accept yet, and the next.
type reading struct {
	run     Run
	ticket  parsedTicket
	encoder *batch.Encoder
	limit   int // bytes per batch
	metrics *metrics
	session *session.Session
}

// batches sends every batch to out. It returns nil after the last requested step or at the end of the run, otherwise
// the first error or the cause of ctx.
func (r *reading) batches(ctx context.Context, reader Reader, out chan<- sending) error {
	place := place(r.ticket.Ticket)
	for n := uint64(0); r.ticket.Steps == 0 || n < r.ticket.Steps; n++ {
		step, waited, err := r.next(ctx, reader)
		if err != nil {
			r.metrics.waited(waited, nil)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.encoder.Sources.Meet(ctx, step); err != nil {
			r.metrics.waited(waited, nil)
			return err
		}
		first, rows := place.Slice(len(step.Rows))
		parts := batch.Split(step, r.ticket.columns, first, rows, r.limit)
		about := api.Metadata{Run: r.ticket.Run, Step: step.Index, Parts: len(parts)}
		batch.CountStep(&about, step, r.encoder.Sources)
		for i, p := range parts {
			about.Part = i
			s, err := r.batch(ctx, step, p, about)
			if i == 0 {
				r.metrics.waited(waited, s.traced)
			}
			if err != nil {
				return err
			}
			select {
			case out <- s:
			case <-ctx.Done():
				s.message.Charge.Drop()
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// batch assembles one part of a step, once memory is available for it.
func (r *reading) batch(ctx context.Context, step *plan.Step, p batch.Part, about api.Metadata) (s sending, err error) {
	start := time.Now()
	charge, err := r.session.Take(ctx, p.Memory(step, r.ticket.columns))
	r.metrics.memory.Add(time.Since(start).Seconds())
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			charge.Drop()
		}
	}()
	s.began = time.Now()
	b, err := r.run.Assemble(ctx, step, p.First, p.Rows)
	if err != nil {
		return s, err
	}
	s.message, s.Metadata, err = r.encoder.Encode(b, about)
	b.Done() // the columns no longer refer to it
	if err != nil {
		return s, err
	}
	charge.Settle(int64(s.message.Size()))
	s.message.Charge, s.begins, s.traced = charge, b.Begins, b.Traced
	return s, nil
}

// next waits for the next step, and returns the duration of the wait.
func (r *reading) next(ctx context.Context, reader Reader) (step *plan.Step, waited time.Duration, err error) {
	if err := reader.Room(ctx); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	r.session.Asks(start)
	step, err = reader.Next(ctx)
	now := time.Now()
	r.session.Got(now, now.Sub(start))
	return step, now.Sub(start), err
}
