package arrowout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"google.golang.org/grpc/codes"

	"loaderd/loader"
	"loaderd/loader/state"
)

func pathOf(parts ...string) *flight.FlightDescriptor {
	return &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: parts}
}

func commandOf(ticket string) *flight.FlightDescriptor {
	return &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(ticket)}
}

func TestListFlights_ReturnsRun(t *testing.T) {
	c := dial(t, serve(t, newFake(3, 4, 16)))
	for criteria, want := range map[string]int{"": 1, "fake": 1, "other": 0} {
		stream, err := c.ListFlights(context.Background(), &flight.Criteria{Expression: []byte(criteria)})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			f, err := stream.Recv()
			if err != nil {
				break
			}
			if p := f.FlightDescriptor.Path; len(p) != 1 || p[0] != "fake" {
				t.Errorf("path %v", p)
			}
			var info loader.Info
			if err := json.Unmarshal(f.AppMetadata, &info); err != nil || info.Fingerprint != "f00d" {
				t.Errorf("metadata %s, %v", f.AppMetadata, err)
			}
			if !mustGet(t, c, string(f.Endpoint[0].Ticket.Ticket)).Next() {
				t.Error("the ticket reads nothing")
			}
		}
		if n != want {
			t.Errorf("criteria %q: %d flights, want %d", criteria, n, want)
		}
	}
}

func TestFlightInfo_HasTicketForEveryRank(t *testing.T) {
	f := newFake(3, 4, 16)
	c := dial(t, serve(t, f))
	for _, tc := range []struct {
		d     *flight.FlightDescriptor
		ranks []int
		world int
	}{
		{pathOf("fake"), []int{0}, 1},
		{commandOf(`{"world":4,"step":1,"columns":["input_ids","cu_seqlens"]}`), []int{0, 1, 2, 3}, 4},
		{commandOf(`{"world":4,"rank":2}`), []int{2}, 4},
	} {
		info, err := c.GetFlightInfo(context.Background(), tc.d)
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Endpoint) != len(tc.ranks) || info.TotalRecords != -1 || info.TotalBytes != -1 {
			t.Fatalf("%v: got %v", tc.d, info)
		}
		schema, err := flight.DeserializeSchema(info.Schema, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := c.GetSchema(context.Background(), tc.d)
		if err != nil || string(alone.Schema) != string(info.Schema) {
			t.Errorf("GetSchema differs, %v", err)
		}
		for i, e := range info.Endpoint {
			if len(e.Location) != 0 {
				t.Errorf("locations %v: want none, which means the server that was asked", e.Location)
			}
			r := mustGet(t, c, string(e.Ticket.Ticket))
			if !r.Schema().Equal(schema) {
				t.Errorf("schema %v, announced %v", r.Schema(), schema)
			}
			if !r.Next() {
				t.Fatal(r.Err())
			}
			m := metadataOf(t, r)
			want := model(f, f.steps[m.Step].Rows[tc.ranks[i]*4/tc.world], 16)
			if got := rowOf(t, r.Record(), 0); fmt.Sprint(got.IDs) != fmt.Sprint(want.IDs) || m.Rows != 4/tc.world {
				t.Errorf("endpoint %d reads other rows", i)
			}
		}
	}
}

// Every endpoint and the action info list the daemons of the run.
func TestFlightInfo_ListsDaemons(t *testing.T) {
	f := newFake(3, 1<<12, 2)
	f.info.Daemons = []string{"grpc://a:8815", "grpc+tls://b:8815"}
	c := dial(t, serve(t, f))
	info, err := c.GetFlightInfo(context.Background(), commandOf(`{"world":4096,"columns":["labels"]}`))
	if err != nil || len(info.Endpoint) != 4096 {
		t.Fatal(len(info.GetEndpoint()), err)
	}
	for _, e := range info.Endpoint {
		if len(e.Location) != 2 || e.Location[0].Uri != f.info.Daemons[0] || e.Location[1].Uri != f.info.Daemons[1] {
			t.Fatalf("locations %v, want %v", e.Location, f.info.Daemons)
		}
	}
	var about loader.Info
	if err := json.Unmarshal(info.AppMetadata, &about); err != nil || !slices.Equal(about.Daemons, f.info.Daemons) {
		t.Errorf("metadata %s, %v", info.AppMetadata, err)
	}
	for i := range 30 { // more than fits a message with so many ranks
		f.info.Daemons = append(f.info.Daemons, fmt.Sprintf("grpc+tls://a-long-name-of-a-machine-%d.example.com:8815", i))
	}
	_, err = c.GetFlightInfo(context.Background(), commandOf(`{"world":4096}`))
	if got := infoOf(t, err, codes.InvalidArgument).Reason; got != "INVALID_TICKET" {
		t.Error(got)
	}
	if info, err = c.GetFlightInfo(context.Background(), commandOf(`{"world":4096,"rank":7}`)); err != nil ||
		len(info.Endpoint[0].Location) != 32 {
		t.Error(info, err)
	}
}

// A reader joins the run under the job of its ticket, by default the trainer's job.
func TestTicket_NamesItsJob(t *testing.T) {
	f := newFake(3, 4, 16)
	var joined []state.RankID
	f.onJoin = func(_ context.Context, place state.RankID, _ uint64) error {
		joined = append(joined, place)
		return nil
	}
	c := dial(t, serve(t, f))
	for ticket, want := range map[string]string{`{}`: "trainer", `{"job":"eval"}`: "eval"} {
		joined = nil
		mustGet(t, c, ticket).Next()
		if len(joined) != 1 || joined[0] != (state.RankID{World: 1, Job: want}) {
			t.Errorf("%s: %v joined", ticket, joined)
		}
		info, err := c.GetFlightInfo(context.Background(), commandOf(ticket))
		if err != nil {
			t.Fatal(err)
		}
		mustGet(t, c, string(info.Endpoint[0].Ticket.Ticket)).Next()
		if len(joined) != 2 || joined[1] != joined[0] {
			t.Errorf("%s: by the endpoint's ticket %v joined", ticket, joined)
		}
	}
}

func TestFlightInfo_RefusesSameTicketsAsDoGet(t *testing.T) {
	c := dial(t, serve(t, newFake(1, 1<<14, 2)))
	for _, tc := range []struct {
		d      *flight.FlightDescriptor
		code   codes.Code
		reason string
	}{
		{pathOf("other"), codes.FailedPrecondition, "RUN_MISMATCH"},
		{pathOf(), codes.InvalidArgument, "INVALID_TICKET"},
		{pathOf("fake", "fake"), codes.InvalidArgument, "INVALID_TICKET"},
		{&flight.FlightDescriptor{}, codes.InvalidArgument, "INVALID_TICKET"},
		{commandOf(``), codes.InvalidArgument, "INVALID_TICKET"},
		{commandOf(`{"world":3}`), codes.FailedPrecondition, "WORLD_MISMATCH"},
		{commandOf(`{"world":16384}`), codes.InvalidArgument, "INVALID_TICKET"},
	} {
		_, err := c.GetFlightInfo(context.Background(), tc.d)
		if got := infoOf(t, err, tc.code).Reason; got != tc.reason {
			t.Errorf("%v: got %s, want %s", tc.d, got, tc.reason)
		}
		_, err = c.GetSchema(context.Background(), tc.d)
		if tc.d.GetCmd() == nil {
			infoOf(t, err, tc.code)
		}
	}
}

func TestServer_UnsupportedMethodsAreRefused(t *testing.T) {
	c := dial(t, serve(t, newFake(1, 4, 16)))
	put, err := c.DoPut(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, putErr := put.Recv()
	exchange, err := c.DoExchange(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, exchangeErr := exchange.Recv()
	handshake, err := c.Handshake(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, handshakeErr := handshake.Recv()
	_, pollErr := c.PollFlightInfo(context.Background(), pathOf("fake"))
	for _, err := range []error{putErr, exchangeErr, handshakeErr, pollErr} {
		if infoOf(t, err, codes.Unimplemented).Reason != "UNSUPPORTED" {
			t.Error(err)
		}
	}
}
