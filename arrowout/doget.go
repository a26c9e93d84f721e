package arrowout

import (
	"context"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"loaderd/loader/state"
)

// DoGet streams the batches of a ticket: the schema at once, then a batch for every step (or part of one) as it becomes ready.
func (s *service) DoGet(t *flight.Ticket, stream flight.FlightService_DoGetServer) (err error) {
	info := s.run.Info()
	req, err := parseTicket(t.GetTicket(), info, callerOf(stream.Context()))
	if err != nil {
		return err
	}
	enc := newEncoder(req.columns, sourcesOf(s.run, info), s.buffers)
	schema, err := enc.schemaMessage()
	if err != nil {
		return err
	}
	who := callerOf(stream.Context())
	done, err := s.limits.stream(who, place(req.Ticket).Job)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	memory, err := s.budget.open(who.Name, addressOf(ctx), connectionOf(ctx), cancel)
	if err != nil {
		return err
	}
	defer memory.close()
	if err := s.places.admit(stream.Context(), who, place(req.Ticket), req.Session); err != nil {
		return err
	}
	reader, err := s.run.JoinAs(place(req.Ticket), req.Step, state.Client{Session: req.Session, Taken: req.Taken, Steps: req.Steps, Read: req.Read, Address: addressOf(stream.Context())})
	if err != nil {
		return err
	}
	defer context.AfterFunc(s.stopping, func() { cancel(context.Cause(s.stopping)) })()
	left, err := s.places.take(who, place(req.Ticket), req.Session, addressOf(ctx), cancel)
	if err != nil {
		reader.Close()
		return err
	}
	defer left()
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	visit := s.visits.begin(stream.Context(), req)
	defer func() { visit.end(err) }()
	flow := s.traffic.begin(time.Now(), place(req.Ticket), who.Name, addressOf(ctx), req.Step)
	defer func() { s.traffic.end(time.Now(), flow) }()

	r := &reading{run: s.run, request: req, encoder: enc, limit: s.batchBytes, metrics: s.metrics, memory: memory, flow: flow}
	ready := make(chan sending)
	var failed error // set before ready is closed
	go func() {
		defer close(ready)
		failed = guarded(func() error {
			defer reader.Close()
			return r.batches(ctx, reader, ready)
		})
	}()
	if err := stream.SendMsg(schema); err != nil { // which does not wait: it is the first
		cancel(err)
	}
	if err := s.deliver(ctx, stream, ready, reader.Dropped(), visit, flow); err != nil {
		cancel(err)
	}
	cause := context.Cause(ctx)
	cancel(nil)
	for b := range ready { // to its end, so that the reader is closed when the call returns
		b.message.charge.drop()
	}
	if cause != nil {
		return cause
	}
	return failed
}

// deliver sends what is ready. It returns when ctx ends, or the reader is dropped, although a send stands still, which ends when the call does: until then gRPC waits for the
// reader to take something.
func (s *service) deliver(ctx context.Context, stream flight.FlightService_DoGetServer, ready <-chan sending, dropped <-chan error, visit *visit, flow *flow) error {
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
					b.message.charge.drop()
				} else if err := s.sendBatch(stream, b, flow); err != nil {
					return err
				} else {
					visit.sent(b)
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

func (s *service) sendBatch(stream flight.FlightService_DoGetServer, b sending, flow *flow) error {
	start := time.Now()
	for _, d := range b.message.dictionaries {
		if err := stream.SendMsg(d); err != nil {
			b.message.charge.drop()
			return err
		}
	}
	if err := stream.SendMsg(b.message); err != nil {
		b.message.charge.drop() // if it did not come to gRPC's buffers
		return err
	}
	now := time.Now()
	s.metrics.sent(b, now, now.Sub(start))
	flow.sent(now, b)
	if s.tracer != nil {
		for _, d := range b.traced {
			s.tracer.Read(d, flow.Place, b.Step, b.began, now)
		}
	}
	return nil
}
