package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/auth"
	"loaderd/internal/event"
)

// Cluster configures the cluster that stores the streams. Without a name the server is standalone.
type Cluster struct {
	// Name of the cluster, the same for all members.
	Name string `koanf:"name"`
	// Listen is the address where this member accepts routes of the other members, host:port.
	Listen string `koanf:"listen"`
	// Advertise is the address where the other members reach this one, host:port, if it differs from Listen.
	Advertise string `koanf:"advertise"`
	// Peers are the addresses of all members including this one, host:port. The list is the same for all members.
	Peers []string `koanf:"peers"`
	// SecretFile holds the members' secret. Routes are accepted only from members, and all members have the same tokens.
	// If empty, the file SecretFile in the data folder is used, which the first start creates.
	SecretFile string `koanf:"secret_file"`
}

// SecretFile is the file of the data folder with the secret of a cluster's members.
const SecretFile = "cluster.secret"

const minSecret = 16 // characters

// secret reads the members' secret; it is empty for a standalone server. Without a configured file it creates the one
// in the data folder.
func (c Cluster) secret(dir string, log *slog.Logger) (string, error) {
	if c.Name == "" {
		return "", nil
	}
	name := c.SecretFile
	if name == "" {
		name = filepath.Join(dir, SecretFile)
	}
	secret, err := auth.ReadToken(name)
	switch {
	case c.SecretFile == "" && errors.Is(err, fs.ErrNotExist):
		secret = auth.RandomSecret()
		if err = auth.WritePrivate(name, []byte(secret+"\n")); err == nil {
			log.Warn("created the secret of the cluster", event.ClusterSecretCreated, "file", name, "cluster", c.Name,
				"do", "copy the file to the data folders of the other members before they start "+
					"(docs/how-to/cluster.md#embedded-servers)")
		}
	case err == nil && len(secret) < minSecret:
		err = fmt.Errorf("%s holds %d characters: want %d at least", name, len(secret), minSecret)
	}
	if err != nil {
		return "", fmt.Errorf("read the secret of the cluster (stream.cluster.secret_file): %w", err)
	}
	return secret, nil
}

// routeUser is the user name of a member that connects to another one.
const routeUser = "member"

// A member drops the route to a peer that misses two pings. Otherwise a peer that is frozen, or whose machine is
// down, would lose requests for a long time.
const (
	routePingInterval = 500 * time.Millisecond
	maxRoutePingsOut  = 2
)

// standaloneName is the name of a standalone server.
const standaloneName = "loaderd"

var invalidNameChars = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// serverName returns a name for a new member: the host where the other members reach it, else the machine's
// host name, and the port of routes. It is unique in a cluster. A member that lost its disk gets the same name,
// and so replaces itself.
func (c Cluster) serverName() (string, error) {
	if c.Name == "" {
		return standaloneName, nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("read address of routes (stream.cluster.listen): %w", err)
	}
	if at, forwarded, err := net.SplitHostPort(c.Advertise); err == nil && !isUnspecificHost(at) {
		host, port = at, forwarded
	}
	if isUnspecificHost(host) {
		host, err = os.Hostname()
	}
	if err != nil || host == "" || host == "localhost" {
		var random [8]byte
		rand.Read(random[:]) //nolint:errcheck // it never returns one
		host = hex.EncodeToString(random[:])
	}
	return invalidNameChars.ReplaceAllString(host, "-") + "-" + port, nil
}

// isUnspecificHost reports whether a host exists on every machine.
func isUnspecificHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && (ip.IsUnspecified() || ip.IsLoopback())
}

// options returns the server's options for its routes.
func (c Cluster) options(secret string) (server.ClusterOpts, []*url.URL, error) {
	if c.Name == "" {
		return server.ClusterOpts{}, nil, nil
	}
	host, port, err := hostPort(c.Listen)
	if err != nil {
		return server.ClusterOpts{}, nil, fmt.Errorf("read address of routes (stream.cluster.listen): %w", err)
	}
	opts := server.ClusterOpts{
		Name: c.Name, Host: host, Port: port, Advertise: c.Advertise, PingInterval: routePingInterval,
		MaxPingsOut: maxRoutePingsOut,
		Username:    routeUser, Password: auth.DeriveSecret(secret, "routes"), TLSTimeout: tlsTimeout,
	}
	if opts.TLSConfig, err = routeTLS(secret, append([]string{c.Listen, c.Advertise}, c.Peers...)); err != nil {
		return opts, nil, err
	}
	var routes []*url.URL
	for _, peer := range c.Peers {
		routes = append(routes, &url.URL{Scheme: "nats", User: url.UserPassword(opts.Username, opts.Password), Host: peer})
	}
	return opts, routes, nil
}
