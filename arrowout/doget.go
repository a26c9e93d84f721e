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
	req, err := parseTicket(t.GetTicket(), info, caller.Of(stream.Context()))
	if err != nil {
		return err
	}
	enc := batch.NewEncoder(req.columns, action.SourcesOf(s.run, info), s.buffers)
	schema, err := enc.Schema()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	opened, err := s.sessions.Open(stream.Context(), readerOf(stream.Context(), req), cancel)
	if err != nil {
		return err
	}
	defer func() { opened.Close(stream.Context(), err) }()
	client := state.Client{Session: req.Session, Taken: req.Taken, Steps: req.Steps, Read: req.Read,
		Address: opened.Address}
	reader, err := s.run.JoinAs(opened.Place, req.Step, client)
	if err != nil {
		return err
	}
	defer context.AfterFunc(s.stopping, func() { cancel(context.Cause(s.stopping)) })()
	if err := opened.Begin(stream.Context()); err != nil {
		reader.Close()
		return err
	}
	r := &reading{run: s.run, ticket: req, encoder: enc, limit: s.batchBytes, metrics: s.metrics, session: opened}
	ready := make(chan sending)
	var failed error // set before ready is closed
	go func() {
		defer close(ready)
		failed = guarded(func() error {
			defer reader.Close()
			return r.batches(ctx, reader, ready)
		})
	}()
	if err := stream.SendMsg(schema); err != nil { // does not block: it is the first message
		cancel(err)
	}
	if err := s.deliver(ctx, stream, ready, reader.Dropped(), opened); err != nil {
		cancel(err)
	}
	cause := context.Cause(ctx)
	cancel(nil)
	for b := range ready { // drain it, so that the reader is closed when the call returns
		b.message.Charge.Drop()
	}
	if cause != nil {
		return cause
	}
	return failed
}

// readerOf describes the caller that opens a stream.
func readerOf(ctx context.Context, q parsedTicket) session.Reader {
	x := session.Reader{
		Identity: caller.Of(ctx), Place: place(q.Ticket), Client: q.Session, Address: caller.Address(ctx), Step: q.Step,
		Steps: q.Steps,
	}
	if c := connectionOf(ctx); c != nil {
		x.Connection = c
	}
	return x
}

// deliver sends the batches of ready. It returns when ctx ends or the reader is dropped, even if a send is blocked. A
// blocked send ends with the call: until then gRPC waits for the client to read.
func (s *service) deliver(ctx context.Context, stream flight.FlightService_DoGetServer, ready <-chan sending,
	dropped <-chan error, to *session.Session) error {
	var first sending
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
		sent <- guarded(func() error {
			for b, more := first, true; more; b, more = <-ready {
				if ctx.Err() != nil {
					b.message.Charge.Drop()
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

func (s *service) sendBatch(stream flight.FlightService_DoGetServer, b sending, to *session.Session) error {
	start := time.Now()
	for _, d := range b.message.Dictionaries {
		if err := stream.SendMsg(d); err != nil {
			b.message.Charge.Drop()
			return err
		}
	}
	if err := stream.SendMsg(b.message); err != nil {
		b.message.Charge.Drop() // if it did not reach gRPC's buffers
		return err
	}
	now := time.Now()
	s.metrics.sent(b, now, now.Sub(start))
	to.Sent(now, b.Step, b.Part == b.Parts-1, b.message.Size())
	if s.tracer != nil {
		for _, d := range b.traced {
			s.tracer.Read(d, to.Place, b.Step, b.began, now)
		}
	}
	return nil
}
