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
	var target httpTarget
	var ready bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check the local daemon's health",
		Long: `Check the local daemon's health, or with --ready whether readers can expect
steps. The command requests /healthz or /readyz. With -c, it does so at
http.listen of the configuration. No token is needed. The exit status is 0 on
success, else 1 with the reason. Service managers and containers can use the
command as a probe.

The command does not check the state of the run: use loaderd status.`,
		Example: `  loaderd health -c /etc/loaderd/loaderd.yaml
  loaderd health --ready --wait 1m                  # wait up to one minute
  loaderd health --daemon https://trainer-0:9815`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := target.find(cmd)
			if err != nil {
				return err
			}
			client := &http.Client{Timeout: healthTimeout}
			if found.own {
				// No secret is sent to this machine's own address, which the daemon's certificate need not name.
				client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			}
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			said, err := healthy(cmd.Context(), client, found.url+path, wait)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), said)
			return nil
		},
	}
	fl := cmd.Flags()
	target.register(cmd)
	fl.BoolVar(&ready, "ready", false, "check whether readers can expect steps")
	fl.DurationVar(&wait, "wait", 0, "repeat a failed check for this long")
	return cmd
}

// httpTarget are the flags of commands that use the HTTP server of a daemon.
type httpTarget struct {
	config command.ConfigFlags
	daemon command.DaemonFlag
}

func (t *httpTarget) register(cmd *cobra.Command) {
	t.config.RegisterFile(cmd)
	t.daemon.RegisterHTTP(cmd)
}

// foundHTTP is the HTTP server that a command uses.
type foundHTTP struct {
	url, dir string         // dir is the data folder with the daemon's tokens
	own      bool           // of this machine, by its configuration or data folder
	config   *config.Config // nil if a data folder, URL or context names the server
}

// find returns the server. It is that of the configuration with -c or --set, and if no daemon is named and none has
// written its address to the default data folder.
func (t *httpTarget) find(cmd *cobra.Command) (f foundHTTP, err error) {
	if t.config.File == "" && len(t.config.Overrides) == 0 || cmd.Flags().Changed("daemon") {
		d, err := t.daemon.Find()
		if err != nil {
			return f, err
		}
		if d.IsKnown() {
			f.url, err = d.HTTPURL()
			f.dir, f.own = d.TokenFolder(), d.HasOwnHTTP()
			return f, err
		}
	}
	c, err := t.config.Load(cmd)
	if err != nil {
		return f, err
	}
	f = foundHTTP{dir: c.Stream.Dir, own: true, config: &c}
	f.url, err = ownAddress(c.HTTP)
	return f, err
}

// ownAddress returns the address at which a daemon is reached from its own machine.
func ownAddress(c config.HTTP) (string, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "0" {
		return "",
			command.Usage(fmt.Errorf("http.listen: %q: want a fixed port; otherwise set --daemon to the URL of the page",
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
		return "", command.Usage(fmt.Errorf("--daemon: %w", err))
	}
	a, err := client.Do(q)
	if err != nil {
		if strings.Contains(err.Error(), "malformed HTTP") {
			return "", fmt.Errorf("no HTTP server listens at %s: the daemon's is at http.listen, by default %s", url,
				command.DefaultHTTP)
		}
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
