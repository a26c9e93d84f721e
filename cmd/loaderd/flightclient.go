package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
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

// action asks the daemon for one action and calls f with every result.
func (f *flightClient) action(ctx context.Context, name string, body map[string]any, each func([]byte) error) error {
	if f.run != "" {
		body["run"] = f.run
	}
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode action %s: %w", name, err)
	}
	security, err := f.security()
	if err != nil {
		return err
	}
	_, address, _ := strings.Cut(f.uri, "://")
	client, err := flight.NewClientWithMiddleware(address, nil, nil, grpc.WithTransportCredentials(security))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", f.uri, err)
	}
	defer client.Close()
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	results, err := client.DoAction(ctx, &flight.Action{Type: name, Body: b})
	for err == nil {
		var r *flight.Result
		if r, err = results.Recv(); err == nil {
			err = each(r.GetBody())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%s at %s: %s", name, f.uri, status.Convert(err).Message())
}

func (f *flightClient) security() (credentials.TransportCredentials, error) {
	scheme, _, ok := strings.Cut(f.uri, "://")
	switch {
	case ok && scheme == "grpc" && f.ca == "":
		return insecure.NewCredentials(), nil
	case !ok || scheme != "grpc+tls":
		return nil, usageError{fmt.Errorf("--flight %s: want grpc://HOST:PORT, or grpc+tls://HOST:PORT for a daemon with a certificate", f.uri)}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("read authority: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authority: %s holds no PEM certificate", f.ca)
		}
	}
	return credentials.NewTLS(config), nil
}
