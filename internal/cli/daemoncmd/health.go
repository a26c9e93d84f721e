package daemoncmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
)

// healthTimeout limits one request; healthPause is the pause between two requests.
const (
	healthTimeout = 5 * time.Second
	healthPause   = 200 * time.Millisecond
)

// NewHealthCmd returns the command health.
func NewHealthCmd() *cobra.Command {
	var flags command.ConfigFlags
	var address string
	var ready bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check the local daemon's health",
		Long: `Check the local daemon's health, or with --ready whether readers can expect
steps. The command requests /healthz or /readyz at http.listen of the
configuration, which is loaded as serve loads it. No token is needed. The exit
status is 0 on success, else 1 with the reason. Service managers and containers
can use the command as a probe.

The command does not check the state of the run: use loaderd status.`,
		Example: `  loaderd health -c /etc/loaderd/loaderd.yaml
  loaderd health --ready --wait 1m                  # wait up to one minute
  loaderd health --http https://trainer-0:9815`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := &http.Client{Timeout: healthTimeout}
			if address == "" {
				c, err := flags.Load(cmd)
				if err != nil {
					return err
				}
				if address, err = ownAddress(c.HTTP); err != nil {
					return err
				}
				// No secret is sent to this machine's own address, which the daemon's certificate need not name.
				client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			}
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			said, err := healthy(cmd.Context(), client, strings.TrimSuffix(address, "/")+path, wait)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), said)
			return nil
		},
	}
	fl := cmd.Flags()
	flags.RegisterFile(cmd)
	fl.StringVar(&address, "http", "", "`URL` of the daemon's HTTP server (default: http.listen of the configuration)")
	fl.BoolVar(&ready, "ready", false, "check whether readers can expect steps")
	fl.DurationVar(&wait, "wait", 0, "repeat a failed check for this long")
	return cmd
}

// ownAddress returns the address at which a daemon is reached from its own machine.
func ownAddress(c config.HTTP) (string, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "0" {
		return "",
			command.Usage(fmt.Errorf("http.listen: %q: want a fixed port; otherwise set --http to the URL of the daemon",
				c.Listen))
	}
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if c.Cert != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port), nil
}

// healthy repeats a health request until it succeeds or wait is over. It returns the response text.
func healthy(ctx context.Context, client *http.Client, url string, wait time.Duration) (string, error) {
	until := time.Now().Add(wait)
	for {
		said, err := askHealth(ctx, client, url)
		if err == nil || ctx.Err() != nil || time.Now().After(until) {
			return said, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(healthPause):
		}
	}
}

func askHealth(ctx context.Context, client *http.Client, url string) (string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", command.Usage(fmt.Errorf("--http: %w", err))
	}
	a, err := client.Do(q)
	if err != nil {
		return "", fmt.Errorf("cannot reach the daemon: %w", err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 4096))
	said := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read the daemon's response: %w", err)
	case a.StatusCode != http.StatusOK && said == "":
		return "", fmt.Errorf("%s returned %s", url, a.Status)
	case a.StatusCode != http.StatusOK:
		return "", errors.New(said)
	}
	return said, nil
}
