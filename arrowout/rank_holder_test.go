package arrowout_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc/codes"

	"loaderd/arrowout"
	"loaderd/internal/auth"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// Each rank of a job has one stream. A newcomer of the same identity takes its place, even if the stream is blocked.
// Another identity is refused.
func TestRankHolder_OneStreamPerRank(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	trainer, operator := let(t, file, auth.Identity{Name: "big", Role: auth.Train}),
		let(t, file, auth.Identity{Name: "me", Role: auth.Operate})
	f := newFake(20, 2, 64<<10)
	f.last = nil
	s := serve(t, f, func(c *arrowout.Config) { c.Identities = file })
	c := dial(t, s)
	get := func(token, ticket string) (flight.FlightService_DoGetClient, error) {
		stream, err := c.DoGet(withToken(token), &flight.Ticket{Ticket: []byte(ticket)})
		return stream, received(stream, &flight.FlightData{}, err)
	}
	ended := func(stream flight.FlightService_DoGetClient) error {
		for {
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
	}
	openFlood(t, s, 0, 1, 0, trainer, `{"world":2}`)
	eventually(t, "the first has arrived", func() bool { return f.readers.Load() == 1 && f.assembled.Load() >= 2 })
	first, err := get(trainer, `{"world":2}`)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "who never reads has lost the place", func() bool { return f.readers.Load() == 1 })

	if _, err := get(operator, `{"world":2,"job":"big"}`); infoOf(t, err, codes.PermissionDenied).Reason != "FORBIDDEN" ||
		!strings.Contains(err.Error(), "identity big currently reads as rank 0 of 2") {
		t.Errorf("another identity: %v", err)
	}
	for _, elsewhere := range []string{`{"world":2,"rank":1}`, `{"world":1}`, `{"world":2,"job":"big/2"}`} {
		if _, err := get(trainer, elsewhere); err != nil {
			t.Errorf("%s: %v", elsewhere, err)
		}
	}
	eventually(t, "four read", func() bool { return f.readers.Load() == 4 })

	refuse := &fault.Error{Reason: fault.StepPurged, Message: "long ago"}
	f.onJoin = func(_ context.Context, _ state.RankID, step uint64) error {
		if step == 7 {
			return refuse
		}
		return nil
	}
	if _, err := get(trainer, `{"world":2,"step":7}`); infoOf(t, err, codes.OutOfRange).Reason != "STEP_PURGED" {
		t.Errorf("a step that is released: %v", err)
	}
	if f.readers.Load() != 4 {
		t.Error("a newcomer that is refused has taken the place")
	}

	second, err := get(trainer, `{"world":2}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := ended(first); infoOf(t, err, codes.FailedPrecondition).Reason != "REPLACED" {
		t.Errorf("the stream before ends with %v", err)
	}
	eventually(t, "the one before has gone", func() bool { return f.readers.Load() == 4 })
	if _, err := get(operator, `{"world":2,"job":"big"}`); infoOf(t, err, codes.PermissionDenied).Reason != "FORBIDDEN" {
		t.Errorf("another identity, behind the newcomer: %v", err)
	}
	if _, err := second.Recv(); err != nil {
		t.Errorf("the newcomer reads: %v", err)
	}
}

// An abandoned place is available to every permitted identity. A caller without its own name takes no place.
func TestRankHolder_AbandonedRankIsAvailable(t *testing.T) {
	dir := t.TempDir()
	file, shared := filepath.Join(dir, "identities.json"), filepath.Join(dir, "token")
	trainer, operator := let(t, file, auth.Identity{Name: "big", Role: auth.Train}),
		let(t, file, auth.Identity{Name: "me", Role: auth.Operate})
	if err := os.WriteFile(shared, []byte("the-one-token-of-all"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(3, 2, 16)
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities, c.TokenFile = file, shared }))
	whole := func(token string) error {
		stream, err := c.DoGet(withToken(token), &flight.Ticket{Ticket: []byte(`{"job":"big"}`)})
		for err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for _, token := range []string{trainer, operator, trainer} {
		if err := whole(token); err.Error() != "EOF" {
			t.Error(err)
		}
	}
	f.last = nil
	for range 3 {
		stream, err := c.DoGet(withToken("the-one-token-of-all"), &flight.Ticket{Ticket: []byte(`{"job":"big"}`)})
		if err := received(stream, &flight.FlightData{}, err); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "three read", func() bool { return f.readers.Load() == 3 })
}
