package arrowout_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/internal/flightclient"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// A client whose buffers have room for all steps is sent only a window of steps beyond those that its trainer has
// taken.
func TestConsumed_SlowRankReceivesOnlyAWindow(t *testing.T) {
	const steps, window, taken = 200, 8, 3
	session := strings.Repeat("5e", 16)
	f := newFake(steps, 2, 1024)
	var mu sync.Mutex
	have, changed := uint64(0), make(chan struct{})
	full := make(chan uint64, steps)
	f.consumed = func(at state.RankID, c state.Consumption) state.ConsumptionResponse {
		mu.Lock()
		defer mu.Unlock()
		have = c.Delivered
		close(changed)
		changed = make(chan struct{})
		return state.ConsumptionResponse{Known: true, Window: window, Alert: &fault.Error{Reason: fault.RankMissing,
			Message: "m",
			Advice:  "d", Facts: map[string]string{"rank": "3"}}}
	}
	f.room = func(ctx context.Context, step uint64) error {
		for {
			mu.Lock()
			room, wait := step < have+window, changed
			mu.Unlock()
			if room {
				return nil
			}
			full <- step
			select {
			case <-wait:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	s := serve(t, f)
	c, err := flightclient.Open("grpc://"+s.Addr().String(), flightclient.Options{Window: flightclient.BulkWindow})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	got, done := make(chan uint64, steps), make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Read(ctx, api.Ticket{Rank: 1, World: 2, Session: session, Peer: 4}, func(b flightclient.Batch) error {
			got <- b.Meta.Step
			return nil
		})
	}()
	if at := <-full; at != window {
		t.Errorf("the stream waits for room before step %d, want %d", at, window)
	}
	if len(f.clients) != 1 || f.clients[0].Session != session || f.clients[0].Address == "" {
		t.Errorf("%+v", f.clients)
	}
	answer, err := act(dial(t, s), "consumed", `{"rank":1,"world":2,"peer":4,"session":"`+session+`","taken":3}`)
	if want :=
		`{"run":"fake","known":true,"window":8,"alert":{"reason":"RANK_MISSING","message":"m","do":"d","facts":{"rank":"3"}}}`; err != nil || answer != want {
		t.Errorf("%s, %v, want %s", answer, err, want)
	}
	if at := <-full; at != taken+window {
		t.Errorf("with %d taken the stream waits for room before step %d, want %d", taken, at, taken+window)
	}
	for want := range uint64(taken + window) {
		if step := <-got; step != want {
			t.Errorf("got step %d, want %d", step, want)
		}
	}
	cancel()
	<-done
}

// A second client of a rank is refused while the first one reports.
func TestConsumed_RefusesSecondClientOfRank(t *testing.T) {
	f := newFake(200, 2, 1024)
	f.last = nil
	s := serve(t, f)
	c := dial(t, s)
	ticket := func(session string) string { return `{"world":2,"session":"` + strings.Repeat(session, 16) + `"}` }
	first, err := c.DoGet(t.Context(), &flight.Ticket{Ticket: []byte(ticket("5e"))})
	if err := received(first, &flight.FlightData{}, err); err != nil {
		t.Fatal(err)
	}
	reporting, stop := context.WithCancel(t.Context())
	reported := make(chan struct{})
	go func() { // reports continuously, so that the second client finds it active
		defer close(reported)
		for reporting.Err() == nil {
			_, _ = act(c, "consumed", `{"world":2,"taken":0,"session":"`+strings.Repeat("5e", 16)+`"}`)
		}
	}()
	second, err := c.DoGet(t.Context(), &flight.Ticket{Ticket: []byte(ticket("6e"))})
	err = received(second, &flight.FlightData{}, err)
	if info := infoOf(t, err, arrowout.Code(fault.DuplicateRank)); info.Reason != "DUPLICATE_RANK" ||
		info.Metadata["rank"] != "0" || info.Metadata["address"] == "" {
		t.Errorf("%v", err)
	}
	stop()
	<-reported
	if _, err := first.Recv(); err != nil {
		t.Errorf("the first one reads: %v", err)
	}
	same, err := c.DoGet(t.Context(), &flight.Ticket{Ticket: []byte(ticket("5e"))})
	if err := received(same, &flight.FlightData{}, err); err != nil {
		t.Errorf("the first one reconnects: %v", err)
	}
}
