package arrowout_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/arrowout"
	"loaderd/internal/auth"
)

func TestInterceptor_ChecksBearerToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" s3cret-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, newFake(1, 4, 16), func(c *arrowout.Config) { c.TokenFile = file })
	c := dial(t, s)
	for header, ok := range map[string]bool{
		"": false, "Bearer": false, "Bearer ": false, "Bearer wrong": false, "Bearer s3cret-012345678": false,
		"Bearer s3cret-0123456789t": false,
		"Basic s3cret-0123456789":   false, "s3cret-0123456789": false, "Bearer s3cret-0123456789": true,
		"bearer s3cret-0123456789": true,
	} {
		ctx := context.Background()
		if header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", header)
		}
		_, unary := c.GetSchema(ctx, pathOf("fake"))
		stream, err := c.ListFlights(ctx, &flight.Criteria{})
		if err != nil {
			t.Fatal(err)
		}
		_, streamed := stream.Recv()
		for _, err := range []error{unary, streamed} {
			if ok && err != nil {
				t.Errorf("%q: %v", header, err)
			}
			if !ok && infoOf(t, err, codes.Unauthenticated).Reason != "INVALID_TOKEN" {
				t.Errorf("%q: %v", header, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret-0123456789") {
				t.Errorf("the error tells the token: %v", err)
			}
		}
	}
	conn, err := grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
}

// authority is a certificate authority for tests.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{dir: t.TempDir()}
	a.file, _, a.cert, a.key = a.issue(t, name, true)
	return a
}

func (a *authority) issue(t *testing.T, name string,
	ca bool) (certFile, keyFile string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := a.cert, a.key
	if ca {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(err)
	cert, err = x509.ParseCertificate(der)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	must(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return certFile, keyFile, cert, key
}

func TestInterceptor_ChecksClientCertificates(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	serverCert, serverKey, _, _ := ours.issue(t, "server", false)
	trust := func(a *authority, client ...*authority) grpc.DialOption {
		c := &tls.Config{RootCAs: x509.NewCertPool()}
		c.RootCAs.AddCert(a.cert)
		for _, a := range client {
			certFile, keyFile, _, _ := a.issue(t, "client", false)
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = append(c.Certificates, pair)
		}
		return grpc.WithTransportCredentials(credentials.NewTLS(c))
	}
	for _, tc := range []struct {
		name    string
		clients string // CA of client certificates
		dial    grpc.DialOption
		ok      bool
	}{
		{"TLS", "", trust(ours), true},
		{"TLS, wrong CA", "", trust(others), false},
		{"TLS, plaintext client", "", grpc.WithTransportCredentials(insecure.NewCredentials()), false},
		{"mTLS", ours.file, trust(ours, ours), true},
		{"mTLS, no client certificate", ours.file, trust(ours), false},
		{"mTLS, client certificate of another CA", ours.file, trust(ours, others), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, newFake(2, 4, 16), func(c *arrowout.Config) {
				c.Cert, c.Key, c.ClientCA = serverCert, serverKey, tc.clients
			})
			r, _, err := get(t, dial(t, s, tc.dial), `{}`)
			if !tc.ok {
				if status.Code(err) != codes.Unavailable {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || !r.Next() {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNewServer_RefusesInvalidConfiguration(t *testing.T) {
	dir := t.TempDir()
	empty, rubbish, blank := filepath.Join(dir, "empty"), filepath.Join(dir, "rubbish"), filepath.Join(dir, "blank")
	for file, text := range map[string]string{empty: " \n", rubbish: "rubbish", blank: "a b"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := newAuthority(t, "a")
	cert, key, _, _ := a.issue(t, "server", false)
	for _, tc := range []struct {
		change func(*arrowout.Config)
		says   string
	}{
		{func(c *arrowout.Config) { c.TokenFile = dir + "/none" }, "read bearer token"},
		{func(c *arrowout.Config) { c.TokenFile = blank }, "not allowed in headers"},
		{func(c *arrowout.Config) { c.TokenFile = empty }, "is empty"},
		{func(c *arrowout.Config) { c.Cert, c.Key = rubbish, key }, "load certificate"},
		{func(c *arrowout.Config) { c.Cert, c.Key, c.ClientCA = cert, key, rubbish }, "no PEM certificate"},
		{func(c *arrowout.Config) { c.Cert, c.Key, c.ClientCA = cert, key, dir+"/none" }, "read client CA"},
		{func(c *arrowout.Config) { c.BatchBytes, c.Keepalive = 1, 0 }, "keepalive: 0s"},
	} {
		cfg := arrowout.Default()
		tc.change(&cfg)
		if _, err := arrowout.NewServer(cfg, arrowout.AdaptRun(newFake(0, 1, 1)), slog.New(slog.DiscardHandler),
			nil); err == nil ||
			!strings.Contains(err.Error(), tc.says) {
			t.Errorf("got %v, want ...%s...", err, tc.says)
		}
	}
}

func TestServer_EndsStreamsOfRevokedIdentities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	stays, goes := let(t, file, auth.Identity{Name: "stays", Role: auth.Read}),
		let(t, file, auth.Identity{Name: "goes", Role: auth.Read})
	f := newFake(1, 4, 16)
	f.last = nil
	s := serve(t, f, func(c *arrowout.Config) { c.Identities = file })
	open := func(token string) flight.FlightService_DoGetClient {
		stream, err := dial(t, s).DoGet(withToken(token), &flight.Ticket{Ticket: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // schema and batch
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		return stream
	}
	kept, revoked := open(stays), open(goes)
	if err := auth.Remove(file, "goes"); err != nil {
		t.Fatal(err)
	}
	s.Revoke() // the gate has not yet reread the file
	if n := f.readers.Load(); n != 2 {
		t.Errorf("%d streams are open", n)
	}
	if err := s.Gate().Reload(); err != nil {
		t.Fatal(err)
	}
	s.Revoke()
	if _, err := revoked.Recv(); infoOf(t, err, codes.Unauthenticated).Reason != "INVALID_TOKEN" {
		t.Errorf("got %v", err)
	}
	s.Revoke()
	eventually(t, "its stream has ended", func() bool { return f.readers.Load() == 1 })
	if err := kept.Context().Err(); err != nil {
		t.Errorf("the stream of another identity has ended: %v", err)
	}
}

// A stream continues after its signature has expired. It ends with the token.
func TestServer_EndsSignedStreamsWithToken(t *testing.T) {
	own := auth.FlightToken(t.TempDir(), "")
	f := newFake(1, 4, 16)
	f.last = nil
	s := serve(t, f, func(c *arrowout.Config) { c.OwnToken = &own })
	token, err := own.Read()
	if err != nil {
		t.Fatal(err)
	}
	signature := auth.SignCall(token, s.Addr().String(), time.Now())
	signed := metadata.AppendToOutgoingContext(t.Context(), "authorization", signature)
	open := func() (flight.FlightService_DoGetClient, error) {
		stream, err := dial(t, s).DoGet(signed, &flight.Ticket{Ticket: []byte("{}")})
		for range 2 { // schema and batch
			if err == nil {
				_, err = stream.Recv()
			}
		}
		return stream, err
	}
	stream, err := open()
	if err != nil {
		t.Fatal(err)
	}
	s.Gate().SetFlightAddress(s.Addr().String()) // the signature has expired by now
	if _, err := open(); infoOf(t, err, codes.Unavailable).Reason != "LIMITED" {
		t.Errorf("with an old signature: %v", err)
	}
	s.Revoke()
	if n := f.readers.Load(); n != 1 || stream.Context().Err() != nil {
		t.Errorf("%d streams are open, %v", n, stream.Context().Err())
	}
	if err := os.Remove(own.File); err != nil {
		t.Fatal(err)
	}
	if err := s.Gate().Reload(); err != nil {
		t.Fatal(err)
	}
	s.Revoke()
	if _, err := stream.Recv(); infoOf(t, err, codes.Unauthenticated).Reason != "INVALID_TOKEN" {
		t.Errorf("got %v", err)
	}
}
