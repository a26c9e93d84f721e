package arrowout

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/apache/arrow/go/v17/arrow/memory"
	protobuf "google.golang.org/protobuf/proto"

	"loaderd/arrowout/internal/action"
	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/caller"
	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/request"
	"loaderd/arrowout/internal/session"
	"loaderd/internal/auth"
	"loaderd/loader"
)

// service answers Flight calls for one run.
type service struct {
	flight.BaseFlightServer
	run        Run
	actions    *action.Handler
	batchBytes int
	metrics    *metrics
	sessions   *session.Registry
	bufferPool *batch.BufferPool
	tracer     Tracer          // nil: documents are not traced
	tracker    ReadTracker     // nil: nothing yields to readers
	stopping   context.Context // ends when the server stops; its cause is sent to readers
}

// A FlightInfo must fit a message of 4 MiB, the default limit of clients.
const (
	maxEndpoints = 4096
	maxInfoBytes = 4<<20 - 1<<10
)

// ListFlights lists the run. Criteria, if present, contain a run's name.
func (s *service) ListFlights(c *flight.Criteria, stream flight.FlightService_ListFlightsServer) error {
	info := s.run.Info()
	if e := string(c.GetExpression()); e != "" && e != info.Run {
		return nil
	}
	f, err := s.flightInfo(&flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{info.Run}}, info,
		caller.Identity(stream.Context()))
	if err != nil {
		return err
	}
	return stream.Send(f)
}

// GetFlightInfo describes the run ([run] as path) or the request of a ticket (the ticket as command). It returns the
// schema and the tickets for reading. It returns one ticket per rank if the command names a world and no rank.
func (s *service) GetFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return s.flightInfo(d, s.run.Info(), caller.Identity(ctx))
}

// GetSchema returns only the schema.
func (s *service) GetSchema(ctx context.Context, d *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	req, err := parseDescriptor(d, s.run.Info(), caller.Identity(ctx))
	if err != nil {
		return nil, err
	}
	return &flight.SchemaResult{Schema: flight.SerializeSchema(batch.SchemaOf(req.columns), memory.DefaultAllocator)}, nil
}

func (s *service) flightInfo(d *flight.FlightDescriptor, info loader.Info,
	who auth.Identity) (*flight.FlightInfo, error) {
	req, err := parseDescriptor(d, info, who)
	if err != nil {
		return nil, err
	}
	ranks := []int{req.Rank}
	if !req.hasRank {
		if req.World > maxEndpoints {
			return nil, refusal.InvalidTicket("world %d has too many ranks for one response: name a rank", req.World)
		}
		ranks = ranks[:0]
		for r := range req.World {
			ranks = append(ranks, r)
		}
	}
	about, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("encode run description: %w", err)
	}
	f := &flight.FlightInfo{
		Schema:           flight.SerializeSchema(batch.SchemaOf(req.columns), memory.DefaultAllocator),
		FlightDescriptor: d,
		TotalRecords:     -1, // unknown: the stream of documents may grow
		TotalBytes:       -1,
		AppMetadata:      about,
	}
	var locations []*flight.Location // none: the server that received the request
	for _, uri := range info.Daemons {
		locations = append(locations, &flight.Location{Uri: uri})
	}
	for _, r := range ranks {
		t := req.Ticket
		t.Rank = r
		f.Endpoint = append(f.Endpoint, &flight.FlightEndpoint{Ticket: &flight.Ticket{Ticket: encodeTicket(t)},
			Location: locations})
	}
	if protobuf.Size(f) > maxInfoBytes {
		return nil, refusal.InvalidTicket("world %d has too many ranks for one response that lists %d daemons: name a rank",
			req.World, len(info.Daemons))
	}
	return f, nil
}

// parseDescriptor parses a descriptor into a ticket.
func parseDescriptor(d *flight.FlightDescriptor, info loader.Info, who auth.Identity) (parsedTicket, error) {
	switch d.GetType() {
	case flight.DescriptorCMD:
		return parseTicket(d.GetCmd(), info, who)
	case flight.DescriptorPATH:
		if len(d.GetPath()) != 1 {
			return parsedTicket{}, refusal.InvalidTicket("descriptor path has %d parts: want one, the run's name",
				len(d.GetPath()))
		}
		if err := request.CheckRun(d.GetPath()[0], "", info); err != nil {
			return parsedTicket{}, err
		}
		return parseTicket([]byte("{}"), info, who)
	}
	return parsedTicket{}, refusal.InvalidTicket(
		"descriptor has no type: want the run's name as path or a ticket as command")
}

// DoPut is not supported: documents are published over NATS.
func (s *service) DoPut(flight.FlightService_DoPutServer) error {
	return refusal.Unsupported("this server accepts no data", "publish documents to the run's document stream over NATS")
}

// DoExchange is not supported.
func (s *service) DoExchange(flight.FlightService_DoExchangeServer) error {
	return refusal.Unsupported("this server does not support DoExchange",
		"read with DoGet and publish documents over NATS")
}

// PollFlightInfo is not supported: GetFlightInfo returns quickly.
func (s *service) PollFlightInfo(context.Context, *flight.FlightDescriptor) (*flight.PollInfo, error) {
	return nil, refusal.Unsupported("this server does not support PollFlightInfo",
		"use GetFlightInfo, or DoGet, which waits for steps")
}

// Handshake is not supported, because it is not needed.
func (s *service) Handshake(flight.FlightService_HandshakeServer) error {
	return refusal.Unsupported("this server does not support Handshake",
		"send the token as the header authorization: Bearer TOKEN with every call")
}

// ListActions lists the actions with the keys of their bodies.
func (s *service) ListActions(_ *flight.Empty, stream flight.FlightService_ListActionsServer) error {
	for _, a := range action.All {
		if err := stream.Send(&flight.ActionType{Type: a.Name, Description: a.About}); err != nil {
			return err
		}
	}
	return nil
}

// DoAction carries out one action.
func (s *service) DoAction(asked *flight.Action, stream flight.FlightService_DoActionServer) error {
	return s.actions.Do(stream.Context(), asked.GetType(), asked.GetBody(), func(result []byte) error {
		return stream.Send(&flight.Result{Body: result})
	})
}
