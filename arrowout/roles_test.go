package arrowout_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/arrowout"
	"loaderd/internal/access"
	"loaderd/internal/testscale"
	"loaderd/loader"
	"loaderd/loader/plan"
)

// let adds an identity to a file and returns its token.
func let(t testing.TB, file string, i access.Identity) (token string) {
	t.Helper()
	if i.Certificate == "" {
		token, i.SHA256 = access.NewToken()
	}
	if err := access.Add(file, i); err != nil {
		t.Fatal(err)
	}
	return token
}

func withToken(token string) context.Context {
	if token == "" {
		return context.Background()
	}
	return metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+token)
}

// received is the error that ends a stream behind its first message, nil for none.
func received(stream interface{ RecvMsg(any) error }, into any, err error) error {
	if err == nil {
		err = stream.RecvMsg(into)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// Every identity makes every call that the server has, and every action that it lists: what the role permits is answered, all else is refused, with
// the reason, and has no effect.
func TestWhoMayDoWhat(t *testing.T) {
	needs := map[string]access.Role{
		"commit": access.Train, "leave": access.Train, "checkpoint": access.Operate, "info": access.Read, "stats": access.Read, "cause": access.Read,
		"consumed": access.Read,
		"status":   access.Read, "history": access.Read,
		"ledger": access.Operate, "find": access.Operate, "seal": access.Operate, "drain": access.Operate,
		"text": access.Operate, "peek": access.Operate, "mix": access.Operate, "measure": access.Train,
	}
	bodies := map[string]string{"commit": `{"step":1}`, "cause": `{"step":1}`, "ledger": `{"step":1}`, "find": `{"source":"code","sequence":2}`, "text": `{"source":"code","sequence":2}`,
		"mix": `{"weights":{"web":1}}`, "consumed": `{"session":"` + strings.Repeat("5e", 16) + `","taken":1}`}
	file := filepath.Join(t.TempDir(), "identities.json")
	_, unknown := access.NewToken()
	identities := map[string]struct {
		token  string
		role   access.Role
		reason string // of a refusal of all; empty: by role
	}{
		"nobody":      {reason: "BAD_TOKEN"},
		"unknown":     {token: unknown, reason: "BAD_TOKEN"},
		"expired":     {token: let(t, file, access.Identity{Name: "expired", Role: access.Operate, Expires: time.Now().Add(-time.Hour)}), reason: "BAD_TOKEN"},
		"another run": {token: let(t, file, access.Identity{Name: "another", Role: access.Operate, Runs: []string{"other", "fak"}}), reason: "FORBIDDEN"},
		"this run":    {token: let(t, file, access.Identity{Name: "this", Role: access.Operate, Runs: []string{"other", "fa*"}}), role: access.Operate},
	}
	for _, role := range access.Roles {
		identities[string(role)] = struct {
			token  string
			role   access.Role
			reason string
		}{token: let(t, file, access.Identity{Name: string(role), Role: role}), role: role}
	}
	actions := actionsOf(t, dial(t, serve(t, newFake(2, 2, 16))))
	for name, who := range identities {
		t.Run(name, func(t *testing.T) {
			f := shared(newMixed(2, 2, 16, plan.AttentionDocument), 0.5, 0.25, 0.25)
			f.last = io.EOF
			c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities = file }))
			ctx := withToken(who.token)
			calls := map[string]func() error{
				"GetSchema":     func() error { _, err := c.GetSchema(ctx, pathOf("fake")); return err },
				"GetFlightInfo": func() error { _, err := c.GetFlightInfo(ctx, pathOf("fake")); return err },
				"ListFlights": func() error {
					s, err := c.ListFlights(ctx, &flight.Criteria{})
					return received(s, &flight.FlightInfo{}, err)
				},
				"ListActions": func() error {
					s, err := c.ListActions(ctx, &flight.Empty{})
					return received(s, &flight.ActionType{}, err)
				},
				"DoGet": func() error {
					s, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte("{}")})
					return received(s, &flight.FlightData{}, err)
				},
			}
			check := func(call string, role access.Role, err error) {
				t.Helper()
				want, code := who.reason, codes.PermissionDenied
				if want == "" && !who.role.Includes(role) {
					want = "FORBIDDEN"
				}
				if want == "BAD_TOKEN" {
					code = codes.Unauthenticated
				}
				switch {
				case want == "" && err != nil:
					t.Errorf("%s: %v", call, err)
				case want != "" && infoOf(t, err, code).Reason != want:
					t.Errorf("%s: %v, want %s", call, err, want)
				}
			}
			for call, do := range calls {
				check(call, access.Read, do())
			}
			for _, action := range actions {
				role, ok := needs[action]
				if !ok {
					t.Errorf("action %s: which role does it take?", action)
				}
				s, err := c.DoAction(ctx, &flight.Action{Type: action, Body: []byte(bodies[action])})
				check(action, role, received(s, &flight.Result{}, err))
			}
			if changed := len(f.committed) > 0; changed != who.role.Includes(access.Train) {
				t.Errorf("committed: %v by %v", f.committed, f.keepers)
			}
		})
	}
}

// actionsOf are the names of the actions that a server lists.
func actionsOf(t *testing.T, c flight.Client) (names []string) {
	t.Helper()
	stream, err := c.ListActions(context.Background(), &flight.Empty{})
	for err == nil {
		var a *flight.ActionType
		if a, err = stream.Recv(); err == nil {
			names = append(names, a.Type)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return names
}

// Who trains commits and leaves for keepers of its own, and joins jobs of its own, by default the one of its name.
func TestKeepersAndJobsOfOnesOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	trainer, eval := let(t, file, access.Identity{Name: "big", Role: access.Train}), let(t, file, access.Identity{Name: "eval", Role: access.Read})
	f := newFake(2, 2, 16)
	f.last = io.EOF
	jobs := map[string]bool{}
	f.onJoin = func(place loader.Place, _ uint64) error { jobs[place.Job] = true; return nil }
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities = file }))
	for _, tc := range []struct {
		token, action, body string
		ok                  bool
	}{
		{trainer, "commit", `{"step":1}`, true},
		{trainer, "commit", `{"step":1,"keeper":"big/copy"}`, true},
		{trainer, "commit", `{"step":1,"keeper":"trainer"}`, false},
		{trainer, "commit", `{"step":1,"keeper":"bigger"}`, false},
		{trainer, "commit", `{"step":1,"keeper":"big-2"}`, false}, // may be another identity
		{trainer, "leave", `{"keeper":"eval"}`, false},
		{trainer, "leave", ``, true},
		{trainer, "DoGet", `{"job":"big"}`, true},
		{trainer, "DoGet", `{}`, true},
		{trainer, "DoGet", `{"job":"trainer"}`, false},
		{eval, "DoGet", `{}`, true},
		{eval, "DoGet", `{"job":"big"}`, false}, // as a rank that never reads it would hold the others
	} {
		var err error
		if tc.action == "DoGet" {
			s, failed := c.DoGet(withToken(tc.token), &flight.Ticket{Ticket: []byte(tc.body)})
			err = received(s, &flight.FlightData{}, failed)
		} else {
			s, failed := c.DoAction(withToken(tc.token), &flight.Action{Type: tc.action, Body: []byte(tc.body)})
			err = received(s, &flight.Result{}, failed)
		}
		if tc.ok && err != nil || !tc.ok && infoOf(t, err, codes.PermissionDenied).Reason != "FORBIDDEN" {
			t.Errorf("%s %s: %v", tc.action, tc.body, err)
		}
	}
	if fmt.Sprint(f.keepers) != "[big big/copy]" {
		t.Errorf("keepers %v", f.keepers)
	}
	if fmt.Sprint(jobs) != "map[big:true eval:true]" {
		t.Errorf("jobs %v", jobs)
	}
}

// A client certificate says who calls.
func TestIdentityOfACertificate(t *testing.T) {
	a := newAuthority(t, "authority")
	serverCert, serverKey, _, _ := a.issue(t, "server", false)
	file := filepath.Join(t.TempDir(), "identities.json")
	let(t, file, access.Identity{Name: "big", Role: access.Train, Certificate: "trainer.corp"})
	f := newFake(2, 2, 16)
	s := serve(t, f, func(c *arrowout.Config) {
		c.Identities, c.Cert, c.Key, c.ClientCA = file, serverCert, serverKey, a.file
	})
	for name, want := range map[string]codes.Code{"trainer.corp": codes.OK, "other.corp": codes.Unauthenticated} {
		cert, key, _, _ := a.issue(t, name, false)
		c := dial(t, s, trusting(t, a, cert, key))
		stream, err := c.DoAction(context.Background(), &flight.Action{Type: "commit", Body: []byte(`{"step":1}`)})
		if err := received(stream, &flight.Result{}, err); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		stream, err = c.DoAction(context.Background(), &flight.Action{Type: "seal"})
		if err := received(stream, &flight.Result{}, err); err == nil {
			t.Errorf("%s seals", name)
		}
	}
}

func trusting(t *testing.T, a *authority, cert, key string) grpc.DialOption {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	c.RootCAs.AddCert(a.cert)
	return grpc.WithTransportCredentials(credentials.NewTLS(c))
}

// While certificates, authorities and tokens are replaced again and again, readers come, read on and go, and lose no batch.
func TestRotationUnderLoad(t *testing.T) {
	rotations := testscale.Of(25, 100)
	a := newAuthority(t, "authority")
	cert, key, _, _ := a.issue(t, "server", false)
	file := filepath.Join(t.TempDir(), "identities.json")
	kept := let(t, file, access.Identity{Name: "kept", Role: access.Read})
	f := newFake(64, 2, 16)
	f.last = io.EOF
	s := serve(t, f, func(c *arrowout.Config) { c.Identities, c.Cert, c.Key, c.ClientCA = file, cert, key, a.file })
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	read := make([]int, 4)
	for n := range read {
		readers.Go(func() {
			own, ownKey, _, _ := a.issue(t, fmt.Sprint("reader", n), false)
			for ctx.Err() == nil {
				c, err := flight.NewClientWithMiddleware(s.Addr().String(), nil, nil, trusting(t, a, own, ownKey))
				if err != nil {
					t.Error(err)
					return
				}
				stream, err := c.DoGet(withToken(kept), &flight.Ticket{Ticket: fmt.Appendf(nil, `{"job":"kept/%d"}`, n)})
				batches := -1 // the schema
				for ; err == nil; batches++ {
					_, err = stream.Recv()
				}
				if err != io.EOF || batches-1 != 64 {
					t.Errorf("%d batches of 64, %v", batches-1, err)
				}
				read[n]++
				c.Close()
			}
		})
	}
	for n := range rotations {
		next, nextKey, _, _ := a.issue(t, fmt.Sprint("server", n), false)
		for from, to := range map[string]string{next: cert, nextKey: key} {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprint("rotated", n)
		token := let(t, file, access.Identity{Name: name, Role: access.Read})
		if err := s.Certificates().Reload(); err != nil {
			t.Fatal(err)
		}
		if err := s.Gate().Reload(); err != nil {
			t.Fatal(err)
		}
		own, ownKey, _, _ := a.issue(t, "prober", false)
		c := dial(t, s, trusting(t, a, own, ownKey))
		if _, err := c.GetSchema(withToken(token), pathOf("fake")); err != nil {
			t.Fatalf("rotation %d: %v", n, err)
		}
		if err := access.Remove(file, name); err != nil {
			t.Fatal(err)
		}
		if err := s.Gate().Reload(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetSchema(withToken(token), pathOf("fake")); infoOf(t, err, codes.Unauthenticated).Reason != "BAD_TOKEN" {
			t.Fatalf("rotation %d: a token that was revoked: %v", n, err)
		}
	}
	stop()
	readers.Wait()
	for n, times := range read {
		if times == 0 {
			t.Errorf("reader %d has read nothing to its end", n)
		}
	}
}
