package arrowout

import (
	"context"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"loaderd/arrowout/internal/action"
	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/caller"
	"loaderd/arrowout/internal/session"
	"loaderd/loader/state"
)

// DoGet streams the batches of a ticket: the schema immediately, then a batch for every step (or part of one) when it
// is ready.
func (s *service) DoGet(t *flight.Ticket, stream flight.FlightService_DoGetServer) (err error) {
	info := s.run.Info()
	req, err := parseTicket(t.GetTicket(), info, caller.Identity(stream.Context()))
	if err != nil {
		return err
	}
	enc := batch.NewEncoder(req.columns, action.SourcesOf(s.run, info), s.bufferPool)
	schema, err := enc.Schema()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	opened, err := s.sessions.Open(stream.Context(), newReaderInfo(stream.Context(), req), cancel)
	if err != nil {
		return err
	}
	defer func() { opened.Close(stream.Context(), err) }()
	client := state.Client{Session: req.Session, Delivered: req.Taken, Steps: req.Steps, PriorSteps: req.Read,
		Address: opened.Address}
	defer context.AfterFunc(s.stopping, func() { cancel(context.Cause(s.stopping)) })()
	reader, err := s.run.JoinAs(ctx, opened.RankID, req.Step, client)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	} else if err != nil {
		return err
	}
	if err := opened.Start(stream.Context()); err != nil {
		reader.Close()
		return err
	}
	r := &batchProducer{run: s.run, ticket: req, encoder: enc, batchBytes: s.batchBytes, metrics: s.metrics,
		session: opened, tracker: s.tracker}
	ready := make(chan outgoingBatch)
	var failed error // set before ready is closed
	go func() {
		defer close(ready)
		failed = recoverPanic(func() error {
			defer reader.Close()
			return r.produceBatches(ctx, reader, ready)
		})
	}()
	if err := stream.SendMsg(schema); err != nil { // does not block: it is the first message
		cancel(err)
	}
	if err := s.deliverBatches(ctx, stream, ready, reader.Dropped(), opened); err != nil {
		cancel(err)
	}
	cause := context.Cause(ctx)
	cancel(nil)
	for b := range ready { // drain it, so that the reader is closed when the call returns
		b.message.Charge.Discard()
	}
	if cause != nil {
		return cause
	}
	return failed
}

// newReaderInfo describes the caller that opens a stream.
func newReaderInfo(ctx context.Context, q parsedTicket) session.ReaderInfo {
	x := session.ReaderInfo{
		Identity: caller.Identity(ctx), RankID: rankIDOf(q.Ticket), Client: q.Session, Address: caller.Address(ctx),
		Step:  q.Step,
		Steps: q.Steps,
	}
	if c := connectionFromContext(ctx); c != nil {
		x.Connection = c
	}
	return x
}

// deliverBatches sends the batches of ready. It returns when ctx ends or the reader is dropped, even if a send is
// blocked. A blocked send ends with the call: until then gRPC waits for the client to read.
func (s *service) deliverBatches(ctx context.Context, stream flight.FlightService_DoGetServer,
	ready <-chan outgoingBatch, dropped <-chan error, to *session.Session) error {
	var first outgoingBatch
	select {
	case b, any := <-ready:
		if !any {
			return nil
		}
		first = b
	case err := <-dropped:
		return err
	case <-ctx.Done():
		return nil
	}
	sent := make(chan error, 1)
	go func() {
		sent <- recoverPanic(func() error {
			for b, more := first, true; more; b, more = <-ready {
				if ctx.Err() != nil {
					b.message.Charge.Discard()
				} else if err := s.sendBatch(stream, b, to); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	select {
	case err := <-sent:
		return err
	case err := <-dropped:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (s *service) sendBatch(stream flight.FlightService_DoGetServer, b outgoingBatch, to *session.Session) error {
	start := time.Now()
	for _, d := range b.message.Dictionaries {
		if err := stream.SendMsg(d); err != nil {
			b.message.Charge.Discard()
			return err
		}
	}
	if err := stream.SendMsg(b.message); err != nil {
		b.message.Charge.Discard() // if it did not reach gRPC's buffers
		return err
	}
	now := time.Now()
	s.metrics.observeSent(b, now, now.Sub(start))
	to.RecordBatch(now, b.Step, b.Part == b.Parts-1, b.message.Size())
	if s.tracer != nil {
		for _, d := range b.tracedDocuments {
			s.tracer.RecordRead(d, to.RankID, b.Step, b.assemblyStart, now)
		}
	}
	return nil
}
