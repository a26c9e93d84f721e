package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	"loaderd/internal/reader"
)

// flightClient are the flags of commands that talk to a running daemon.
type flightClient struct {
	uri, tokenFile, ca, run string
}

func (f *flightClient) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.uri, "flight", "grpc://127.0.0.1:8815", "`URI` of the daemon's Flight server (grpc:// or grpc+tls://)")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the bearer token")
	flags.StringVar(&f.ca, "tls-ca", "", "PEM `file` of the authority that signed the daemon's certificate")
	flags.StringVar(&f.run, "run", "", "`name` of the run; the daemon refuses when it serves another")
}

// action asks the daemon for one action and calls each with every result.
func (f *flightClient) action(ctx context.Context, name string, body map[string]any, each func([]byte) error) error {
	if f.run != "" {
		body["run"] = f.run
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	client, err := reader.Open(f.uri, options)
	if err != nil {
		return usageError{fmt.Errorf("--flight: %w", err)}
	}
	defer client.Close()
	if err = client.Results(ctx, name, body, each); err == nil {
		return nil
	}
	if s, ok := status.FromError(errors.Unwrap(err)); ok { // the daemon's sentence without gRPC's frame
		return fmt.Errorf("%s at %s: %s", name, f.uri, s.Message())
	}
	return err
}

func (f *flightClient) options() (reader.Options, error) {
	var o reader.Options
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return o, fmt.Errorf("read token: %w", err)
		}
		o.Token = strings.TrimSpace(string(token))
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return o, fmt.Errorf("read authority: %w", err)
		}
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return o, fmt.Errorf("read authority: %s holds no PEM certificate", f.ca)
		}
	}
	return o, nil
}
