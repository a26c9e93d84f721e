package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/config"
	"loaderd/internal/daemonfile"
	"loaderd/stream"
	"loaderd/stream/server"
)

// DaemonVariable is the environment variable with the default of --daemon.
const DaemonVariable = "LOADERD_DAEMON"

// DefaultHTTP is the default address of the HTTP server of a daemon on this machine.
const DefaultHTTP = "http://127.0.0.1:9815"

// Default addresses of its other servers.
const (
	defaultFlight = "grpc://127.0.0.1:8815"
	defaultNATS   = "nats://127.0.0.1:4222"
)

// Schemes of the URLs of a daemon's servers, for the help of --daemon.
const (
	flightURLs = "grpc:// or grpc+tls:// `URL`"
	httpURLs   = "http:// or https:// `URL`"
	natsURLs   = "nats:// or tls:// `URLs`"
)

// DaemonFlagName is the name of the flag --daemon.
const DaemonFlagName = "daemon"

// DaemonFlag is the flag --daemon, which names the daemon of a command.
type DaemonFlag struct{ value string }

// register adds the flag. urls describes the URLs that the command can use.
func (f *DaemonFlag) register(cmd *cobra.Command, urls string) {
	cmd.Flags().StringVar(&f.value, DaemonFlagName, "", "data folder, context, or "+urls+" of the daemon; "+
		"see loaderd context (default $"+DaemonVariable+", else the selected context, else the data folder "+
		stream.Default().Dir+")")
}

// RegisterHTTP adds the flag for a command that uses the HTTP server.
func (f *DaemonFlag) RegisterHTTP(cmd *cobra.Command) { f.register(cmd, httpURLs) }

// RegisterNATS adds the flag for a command that uses the NATS servers.
func (f *DaemonFlag) RegisterNATS(cmd *cobra.Command) { f.register(cmd, natsURLs) }

// Daemon is how a command reaches a daemon.
type Daemon struct {
	Context
	// named is whether the flag, the environment or a selected context names the daemon.
	named bool
}

// IsKnown reports whether the user has named the daemon, or one has written its addresses to the default data folder.
func (d Daemon) IsKnown() bool { return d.named || d.ownHTTP }

// HasOwnHTTP reports whether a daemon on this machine has written the address of its HTTP server.
func (d Daemon) HasOwnHTTP() bool { return d.ownHTTP }

// Find returns the daemon that the flag, the environment or the selected context names, in this order. If none does, it
// is the daemon of the default data folder, or one at the default addresses.
func (f *DaemonFlag) Find() (Daemon, error) {
	for _, x := range []struct{ name, origin string }{
		{f.value, "--daemon"}, {os.Getenv(DaemonVariable), DaemonVariable},
	} {
		if x.name == "" {
			continue
		}
		c, err := findContext(x.name)
		if err != nil {
			return Daemon{}, Usage(fmt.Errorf("%s: %w", x.origin, err))
		}
		return Daemon{Context: c, named: true}, nil
	}
	all, err := ReadContexts()
	if err != nil {
		return Daemon{}, err
	}
	if all.Selected != "" {
		c, err := all.find(all.Selected)
		return Daemon{Context: c, named: true}, err
	}
	c, err := folderContext(DataDir())
	c.Flight, c.HTTP = cmp.Or(c.Flight, defaultFlight), cmp.Or(c.HTTP, DefaultHTTP)
	c.NATS = cmp.Or(server.HolderURL(c.DataDir), defaultNATS)
	return Daemon{Context: c}, err
}

// findContext returns how to reach the daemon with a data folder, a URL or the name of a context.
func findContext(name string) (c Context, err error) {
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		switch scheme {
		case "grpc", "grpc+tls":
			return Context{Flight: name}, nil
		case "http", "https":
			return Context{HTTP: name}, nil
		case "nats", "tls":
			return Context{NATS: name}, nil
		}
		return c, fmt.Errorf("%s: want a URL with grpc, grpc+tls, http, https, nats or tls", name)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return folderContext(name)
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return c, fmt.Errorf("folder %s does not exist", name)
	}
	all, err := ReadContexts()
	if err != nil {
		return c, err
	}
	return all.find(name)
}

// folderContext returns how to reach the daemon of a data folder. The daemon has written its addresses there; it may
// have stopped since.
func folderContext(dir string) (Context, error) {
	a, err := daemonfile.Read(dir)
	return Context{DataDir: dir, Flight: a.Flight, HTTP: a.HTTP, ownHTTP: a.HTTP != ""}, err
}

// flightURI returns the URI of the Flight server.
func (d Daemon) flightURI() (string, error) {
	return d.address(d.Flight, "Flight server", "grpc://HOST:8815", "flight")
}

// HTTPURL returns the URL of the HTTP server.
func (d Daemon) HTTPURL() (string, error) {
	return d.address(strings.TrimSuffix(d.HTTP, "/"), "HTTP server", "http://HOST:9815", "http")
}

// NATSURL returns the URLs of the NATS servers.
func (d Daemon) NATSURL() (string, error) {
	url := d.NATS
	if url == "" && d.DataDir != "" {
		url = server.HolderURL(d.DataDir)
	}
	return d.address(url, "NATS server", "nats://HOST:4222", "nats")
}

// address returns the address of a server, or the error of a command that needs it.
func (d Daemon) address(url, what, example, key string) (string, error) {
	switch {
	case url != "":
		return url, nil
	case d.DataDir != "":
		return "", Unreachable(fmt.Errorf("no daemon with data folder %s is running, or its %s does not listen: "+
			"start loaderd serve, or name the server with --daemon %s", d.DataDir, what, example))
	case d.name != "":
		return "", Usage(fmt.Errorf("context %s has no address of the %s: add it with loaderd context set %s --%s %s", d.name,
			what, d.name, key, example))
	}
	return "", Usage(fmt.Errorf("--daemon %s: this command uses the daemon's %s: want %s, a data folder or a context",
		d.Flight+d.HTTP+d.NATS, what, example))
}

// AwaitNATS is NATSURL, but waits until the daemon of a data folder has started.
func (d Daemon) AwaitNATS(ctx context.Context, wait time.Duration) (url string, err error) {
	for until := time.Now().Add(wait); ; {
		if url, err = d.NATSURL(); err == nil || d.DataDir == "" || time.Now().After(until) {
			return url, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TokenFolder returns the data folder in which commands look for a daemon's tokens.
func (d Daemon) TokenFolder() string { return cmp.Or(d.DataDir, DataDir()) }

// overrides returns the settings with which a command opens the daemon's streams itself. They are those of the
// configuration if nothing names a daemon.
func (d Daemon) overrides() (set []config.Override, err error) {
	if !d.named {
		return nil, nil
	}
	if d.DataDir == "" && d.NATS == "" {
		return nil, Usage(errors.New("this command opens the daemon's streams: want --daemon with its data folder, " +
			"nats://HOST:4222, or a context with either"))
	}
	for _, x := range []struct{ path, value string }{
		{"stream.dir", d.DataDir}, {"stream.url", d.NATS}, {"stream.credentials", d.Credentials}, {"stream.nkey", d.NKey},
		{"stream.tls.ca", d.CA}, {"stream.tls.cert", d.Cert}, {"stream.tls.key", d.Key},
	} {
		if x.value != "" {
			set = append(set, config.Override{Path: x.path, Value: x.value, Flag: "--daemon"})
		}
	}
	return set, nil
}
