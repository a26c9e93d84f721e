package cli

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"loaderd/arrowout"
	"loaderd/internal/certtest"
	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
	"loaderd/loader"
)

// sealingRun is a run that supports only Seal.
type sealingRun struct{ arrowout.Run }

func (sealingRun) Info() loader.Info                              { return loader.Info{Run: "r"} }
func (sealingRun) SealBy(context.Context, string) (uint64, error) { return 7, nil }

// sealingServer returns the address of a Flight server on loopback.
func sealingServer(t *testing.T, change func(*arrowout.Config)) string {
	t.Helper()
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	change(&cfg)
	s, err := arrowout.NewServer(cfg, sealingRun{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Shutdown(ctx)
	})
	return s.Addr().String()
}

// Every connection failure that wrong flags cause is reported with the right flags.
func TestFlightFlags_ConnectionErrorsSuggestFlags(t *testing.T) {
	serverCert, serverKey := certtest.SelfSigned(t, t.TempDir(), "server")
	clientCert, clientKey := certtest.SelfSigned(t, t.TempDir(), "client")
	otherCert, otherKey := certtest.SelfSigned(t, t.TempDir(), "other")
	plain := sealingServer(t, func(*arrowout.Config) {})
	secure := sealingServer(t, func(c *arrowout.Config) { c.Cert, c.Key = serverCert, serverKey })
	mutual := sealingServer(t, func(c *arrowout.Config) { c.Cert, c.Key, c.ClientCA = serverCert, serverKey, clientCert })
	nats := natstest.Start(t).Config().Listen
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"plain", []string{"--daemon", "grpc://" + plain}, command.ExitOK, "ends at document 7"},
		{"NATS", []string{"--daemon", "grpc://" + nats}, command.ExitUnreachable,
			"a NATS server listens at this address; the Flight server is at the daemon's flight.listen"},
		{"NATS with TLS", []string{"--daemon", "grpc+tls://" + nats}, command.ExitUnreachable,
			"a NATS server listens at this address"},
		{"TLS", []string{"--daemon", "grpc+tls://" + secure, "--tls-ca", serverCert}, command.ExitOK,
			"ends at document 7"},
		{"mutual TLS", []string{"--daemon", "grpc+tls://" + mutual, "--tls-ca", serverCert, "--tls-cert", clientCert,
			"--tls-key", clientKey}, command.ExitOK,
			"ends at document 7"},
		{"plain to TLS", []string{"--daemon", "grpc://" + secure}, command.ExitUnreachable, "--daemon grpc+tls://" + secure},
		{"TLS to plain", []string{"--daemon", "grpc+tls://" + plain}, command.ExitUnreachable, "--daemon grpc://" + plain},
		{"no authority", []string{"--daemon", "grpc+tls://" + secure}, command.ExitUnreachable, "--tls-ca"},
		{"no client certificate", []string{"--daemon", "grpc+tls://" + mutual, "--tls-ca", serverCert},
			command.ExitUnreachable, "--tls-cert and --tls-key"},
		{"another client certificate", []string{"--daemon", "grpc+tls://" + mutual, "--tls-ca", serverCert, "--tls-cert",
			otherCert, "--tls-key", otherKey},
			command.ExitUnreachable, "--tls-cert and --tls-key"},
		{"HTTP", []string{"--daemon", "grpc://" + strings.TrimPrefix(page.URL, "http://")}, command.ExitUnreachable,
			"an HTTP server listens at this address"},
		{"no key", []string{"--daemon", "grpc+tls://" + mutual, "--tls-cert", clientCert}, command.ExitUsage, "--tls-key"},
		{"certificates without TLS", []string{"--daemon", "grpc://" + plain, "--tls-ca", serverCert}, command.ExitUsage,
			"grpc+tls://"},
		{"no server", []string{"--daemon", "grpc://127.0.0.1:1"}, command.ExitUnreachable,
			"is loaderd serve running at 127.0.0.1:1?"},
		{"no server with TLS", []string{"--daemon", "grpc+tls://127.0.0.1:1"}, command.ExitUnreachable,
			"is loaderd serve running at 127.0.0.1:1?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Run(t.Context(), append([]string{"seal"}, c.args...), nil, &out, &errs)
			if said := out.String() + errs.String(); code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("exit %d, %q; want exit %d and %q", code, said, c.code, c.says)
			}
		})
	}
}
