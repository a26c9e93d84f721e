package arrowout

import (
	"context"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
)

// DoGet streams the batches of a ticket: the schema at once, then a batch for every step (or part of one) as it becomes ready.
func (s *service) DoGet(t *flight.Ticket, stream flight.FlightService_DoGetServer) (err error) {
	info := s.run.Info()
	req, err := parseTicket(t.GetTicket(), info, callerOf(stream.Context()))
	if err != nil {
		return err
	}
	enc := newEncoder(req.columns, info.Config)
	schema, err := enc.schemaMessage()
	if err != nil {
		return err
	}
	done, err := s.limits.stream(callerOf(stream.Context()))
	if err != nil {
		return err
	}
	defer done()
	reader, err := s.run.Join(req.place(), req.Step)
	if err != nil {
		return err
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	visit := s.visits.begin(stream.Context(), req)
	defer func() { visit.end(err) }()

	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { cancel(context.Cause(s.stopping)) })()
	r := &reading{run: s.run, request: req, encoder: enc, limit: s.batchBytes, metrics: s.metrics}
	ready := make(chan sending)
	var failed error // set before ready is closed
	go func() {
		defer close(ready)
		failed = guarded(func() error {
			defer reader.Close()
			return r.batches(ctx, reader, ready)
		})
	}()

	if err := stream.SendMsg(schema); err != nil {
		cancel(err)
	}
	for b := range ready { // to its end, so that the reader is closed when the call returns
		if ctx.Err() != nil {
			continue
		}
		if err := s.sendBatch(stream, b); err != nil {
			cancel(err)
			continue
		}
		visit.sent(b)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return failed
}

func (s *service) sendBatch(stream flight.FlightService_DoGetServer, b sending) error {
	start := time.Now()
	if err := stream.SendMsg(b.message); err != nil {
		return err
	}
	s.metrics.sent(b, time.Since(start))
	return nil
}
