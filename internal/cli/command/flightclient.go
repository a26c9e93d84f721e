package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"loaderd/internal/auth"
	"loaderd/internal/flightclient"
	"loaderd/loader/fault"
	"loaderd/stream"
)

// FlightClient are the flags of commands that connect to a running daemon.
type FlightClient struct {
	Run                      string
	URI                      string // of the Flight server, once Open has found the daemon
	daemon                   DaemonFlag
	found                    Daemon
	tokenFile, ca, cert, key string
}

// Register adds the flags.
func (f *FlightClient) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.daemon.register(cmd, flightURLs)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the bearer token")
	flags.StringVar(&f.ca, "tls-ca", "", "PEM `file` of the authority that signed the daemon's certificate")
	flags.StringVar(&f.cert, "tls-cert", "",
		"PEM `file` of the client certificate, if the daemon requires one; with --tls-key")
	flags.StringVar(&f.key, "tls-key", "", "PEM `file` of the key of --tls-cert")
	flags.StringVar(&f.Run, "run", "", "`name` of the run; the daemon rejects the call if it serves another run")
}

// Open returns a client of the daemon. It does not connect yet.
func (f *FlightClient) Open() (*flightclient.Client, error) {
	var err error
	if f.found, err = f.daemon.Find(); err != nil {
		return nil, err
	}
	if f.URI, err = f.found.flightURI(); err != nil {
		return nil, err
	}
	f.tokenFile = cmp.Or(f.tokenFile, f.found.TokenFile)
	if strings.HasPrefix(f.URI, "grpc+tls:") { // the files of a context may be for its NATS servers only
		f.ca = cmp.Or(f.ca, f.found.CA)
		if f.cert+f.key == "" {
			f.cert, f.key = f.found.Cert, f.found.Key
		}
	}
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	client, err := flightclient.Open(f.URI, options)
	if err != nil {
		return nil, Usage(fmt.Errorf("--daemon: %w", err))
	}
	return client, nil
}

// Ask calls f with a client, and names the action in errors. If the daemon is unreachable, the error includes advice.
func (f *FlightClient) Ask(ctx context.Context, action string, ask func(*flightclient.Client) error) error {
	client, err := f.Open()
	if err != nil {
		return err
	}
	defer client.Close()
	if err = ask(client); err == nil {
		return nil
	}
	if s, ok := status.FromError(errors.Unwrap(err)); ok && s != nil { // the daemon's message without the gRPC prefix
		reason := flightclient.Reason(errors.Unwrap(err))
		err = fmt.Errorf("%s at %s: %s%s", action, f.URI, s.Message(), f.advice(ctx, s)+f.noToken(reason))
		if s.Code() == codes.Unavailable && reason == "" { // not a daemon's answer
			err = Unreachable(err)
		}
	}
	return err
}

// DataDir is the default data folder in which commands look for the token of a daemon on this machine.
func DataDir() string { return cmp.Or(os.Getenv("LOADERD_STREAM__DIR"), stream.Default().Dir) }

// noToken returns the reason why the token that the daemon requires was not found.
func (f *FlightClient) noToken(reason string) string {
	_, address, _ := strings.Cut(f.URI, "://")
	if f.tokenFile != "" || reason != string(fault.InvalidToken) {
		return ""
	}
	_, err := auth.NewLocalSigner(f.found.TokenFolder(), address).Authorization()
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

const flightIsAt = "; the Flight server is at the daemon's flight.listen, by default " + defaultFlight

const hungUp = "the daemon closed the connection: it may require a client certificate, or another one " +
	"(--tls-cert and --tls-key)"

// advice returns what to do about an unreachable server. gRPC gives the cause only in its message.
func (f *FlightClient) advice(ctx context.Context, s *status.Status) string {
	if s.Code() != codes.Unavailable {
		return ""
	}
	_, address, _ := strings.Cut(f.URI, "://")
	secure := strings.HasPrefix(f.URI, "grpc+tls:")
	if strings.Contains(s.Message(), "looked like an HTTP/1.1 header") {
		return ": an HTTP server listens at this address, such as the daemon's page" + flightIsAt
	}
	for _, c := range []struct {
		secure       bool
		part, advice string
	}{
		{secure, "connection refused", "is loaderd serve running at " + address + "?"},
		{false, "error reading server preface", "if the daemon uses TLS, set --daemon grpc+tls://" + address},
		{true, "first record does not look like a TLS handshake",
			"the daemon does not use TLS: set --daemon grpc://" + address},
		{true, "unknown authority", "name the authority that signed the daemon's certificate with --tls-ca"},
		{true, "certificate required", "the daemon requires a client certificate: set --tls-cert and --tls-key"},
		{true, "bad certificate", "the daemon rejects the client certificate: check --tls-cert and --tls-key"},
		{true, "unknown certificate authority",
			"the daemon does not trust the authority of the client certificate: check --tls-cert and --tls-key"},
		// Under TLS 1.3 a client may see a rejection only as a lost connection.
		{true, "connection reset by peer", hungUp},
		{true, "broken pipe", hungUp},
		{true, "EOF", hungUp},
	} {
		if c.secure == secure && strings.Contains(s.Message(), c.part) {
			if greetsAsNATS(ctx, address) {
				return ": a NATS server listens at this address" + flightIsAt
			}
			return ": " + c.advice
		}
	}
	return ""
}

func (f *FlightClient) options() (flightclient.Options, error) {
	o := flightclient.Options{Window: flightclient.BulkWindow, DataDir: f.found.TokenFolder()}
	switch {
	case (f.cert == "") != (f.key == ""):
		return o, Usage(errors.New("want --tls-cert and --tls-key together"))
	case f.ca+f.cert != "" && strings.HasPrefix(f.URI, "grpc://"):
		return o, Usage(fmt.Errorf(
			"--tls-ca and --tls-cert need TLS, which %s does not use: want --daemon grpc+tls://HOST:8815",
			f.URI))
	}
	if f.tokenFile != "" {
		token, err := auth.ReadToken(f.tokenFile)
		if err != nil {
			return o, err
		}
		o.Token = token
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.cert != "" {
		own, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return o, fmt.Errorf("read client certificate: %w", err)
		}
		o.TLS.Certificates = []tls.Certificate{own}
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return o, fmt.Errorf("read authority: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return o, fmt.Errorf("read authority: %s contains no PEM certificate", f.ca)
		}
	}
	return o, nil
}
