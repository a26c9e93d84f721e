package arrowout_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/arrowout"
	"loaderd/internal/auth"
	"loaderd/internal/testscale"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// let adds an identity to a file and returns its token.
func let(t testing.TB, file string, i auth.Identity) (token string) {
	t.Helper()
	if i.Certificate == "" {
		token, i.SHA256 = auth.NewToken()
	}
	if err := auth.Add(file, i); err != nil {
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

// received returns the error that ends a stream after its first message, nil for none.
func received(stream interface{ RecvMsg(any) error }, into any, err error) error {
	if err == nil {
		err = stream.RecvMsg(into)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// The role train may commit and leave only for its own jobs, and join only its own jobs. The default job has the
// name of the identity.
func TestRoles_TrainUsesOnlyOwnJobs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	trainer, eval := let(t, file, auth.Identity{Name: "big", Role: auth.Train}),
		let(t, file, auth.Identity{Name: "eval", Role: auth.Read})
	f := newFake(2, 2, 16)
	f.last = io.EOF
	jobs := map[string]bool{}
	f.onJoin = func(_ context.Context, place state.RankID, _ uint64) error { jobs[place.Job] = true; return nil }
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities = file }))
	for _, tc := range []struct {
		token, action, body string
		ok                  bool
	}{
		{trainer, "commit", `{"step":1}`, true},
		{trainer, "commit", `{"step":1,"job":"big/copy"}`, true},
		{trainer, "commit", `{"step":1,"job":"trainer"}`, false},
		{trainer, "commit", `{"step":1,"job":"bigger"}`, false},
		{trainer, "commit", `{"step":1,"job":"big-2"}`, false}, // may belong to another identity
		{trainer, "leave", `{"job":"eval"}`, false},
		{trainer, "leave", ``, true},
		{trainer, "DoGet", `{"job":"big"}`, true},
		{trainer, "DoGet", `{}`, true},
		{trainer, "DoGet", `{"job":"trainer"}`, false},
		{eval, "DoGet", `{}`, true},
		{eval, "DoGet", `{"job":"big"}`, false}, // as a rank that never reads, it would block the other ranks
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
	if fmt.Sprint(f.commits) != "[big big/copy]" {
		t.Errorf("committing jobs %v", f.commits)
	}
	if fmt.Sprint(jobs) != "map[big:true eval:true]" {
		t.Errorf("jobs %v", jobs)
	}
}

// A trainer commits at most the steps that its own job was sent, because commits determine what is purged.
func TestServer_RefusesCommitsOfUnsentSteps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	token := map[string]string{}
	for _, who := range []auth.Identity{{Name: "big", Role: auth.Train}, {Name: "lazy", Role: auth.Train},
		{Name: "me", Role: auth.Operate},
		{Name: "team", Role: auth.Train, Jobs: []string{"team-*"}}} {
		token[who.Name] = let(t, file, who)
	}
	f := newFake(200, 2, 16)
	f.sent, f.kept = map[string]uint64{"big": 10, "big/copy": 30, "bigger": 100, "team-7": 50},
		planrecord.Commits{"big": {Step: 25}, "lazy": {Step: 5}}
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities = file }))
	for _, tc := range []struct {
		who, job string
		step     uint64
		sent     string // named by the refusal; empty: the commit is recorded
	}{
		{"lazy", "lazy", 5, ""}, // same as before
		{"lazy", "lazy", 6, "0"},
		{"lazy", "lazy/3", 0, ""}, // it becomes a job
		{"lazy", "lazy/2", 1, "0"},
		{"big", "big", 30, ""},
		{"big", "big/2", 30, ""},
		{"big", "big", 31, "30"},
		{"big", "big/2", 100, "30"},
		{"team", "team-9", 50, ""},
		{"team", "team-9", 51, "50"},
		{"me", "lazy", 150, ""},
	} {
		s, err := c.DoAction(withToken(token[tc.who]),
			&flight.Action{Type: "commit", Body: fmt.Appendf(nil, `{"step":%d,"job":%q}`, tc.step, tc.job)})
		err = received(s, &flight.Result{}, err)
		if tc.sent == "" {
			if err != nil {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		info := infoOf(t, err, codes.PermissionDenied)
		if info.Reason != "FORBIDDEN" || info.Metadata["sent"] != tc.sent || info.Metadata["step"] != fmt.Sprint(tc.step) ||
			!strings.Contains(err.Error(), "were only sent the steps before "+tc.sent) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	if want := []uint64{5, 0, 30, 30, 50, 150}; !slices.Equal(f.committed, want) {
		t.Errorf("committed %v, want %v", f.committed, want)
	}
}

// A client certificate identifies the caller.
func TestRoles_CertificateIdentifiesCaller(t *testing.T) {
	a := newAuthority(t, "authority")
	serverCert, serverKey, _, _ := a.issue(t, "server", false)
	file := filepath.Join(t.TempDir(), "identities.json")
	let(t, file, auth.Identity{Name: "big", Role: auth.Train, Certificate: "trainer.corp"})
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

// While certificates, authorities and tokens are replaced repeatedly, readers connect, continue and leave without
// losing a batch.
func TestRotation_LosesNoBatchUnderLoad(t *testing.T) {
	rotations := testscale.Of(25, 100)
	a := newAuthority(t, "authority")
	cert, key, _, _ := a.issue(t, "server", false)
	file := filepath.Join(t.TempDir(), "identities.json")
	kept := let(t, file, auth.Identity{Name: "kept", Role: auth.Read})
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
				batches := -1 // without the schema
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
		token := let(t, file, auth.Identity{Name: name, Role: auth.Read})
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
		if err := auth.Remove(file, name); err != nil {
			t.Fatal(err)
		}
		if err := s.Gate().Reload(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetSchema(withToken(token), pathOf("fake")); infoOf(t, err,
			codes.Unauthenticated).Reason != "INVALID_TOKEN" {
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
