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

	"loaderd/internal/access"
	"loaderd/internal/event"
)

// Cluster says which servers keep their streams together. Without a name the server stands alone.
type Cluster struct {
	// Name of the cluster, the same for all members.
	Name string `koanf:"name"`
	// Listen is the address where this member takes routes of the others, host:port.
	Listen string `koanf:"listen"`
	// Advertise is where the other members reach this one, host:port, when that is not Listen.
	Advertise string `koanf:"advertise"`
	// Peers are the addresses of all members, host:port, this one's too: the same list for all.
	Peers []string `koanf:"peers"`
	// SecretFile holds the secret of the members. Routes are taken from members only, and the tokens of the members are
	// the same. Empty takes SecretFile of the data folder, which the first start makes.
	SecretFile string `koanf:"secret_file"`
}

// SecretFile is the file of the data folder with the secret of a cluster's members.
const SecretFile = "cluster.secret"

const minSecret = 16 // characters

// secret reads the members' secret; it is empty for a server that stands alone. Where no file is configured it makes
// that of the data folder.
func (c Cluster) secret(dir string, log *slog.Logger) (string, error) {
	if c.Name == "" {
		return "", nil
	}
	name := c.SecretFile
	if name == "" {
		name = filepath.Join(dir, SecretFile)
	}
	secret, err := access.ReadToken(name)
	switch {
	case c.SecretFile == "" && errors.Is(err, fs.ErrNotExist):
		secret = access.Random()
		if err = access.WritePrivate(name, []byte(secret+"\n")); err == nil {
			log.Warn("made the secret of the cluster", event.ClusterSecretCreated, "file", name, "cluster", c.Name,
				"do", "copy the file to the data folders of the other members before they start (docs/cluster.md)")
		}
	case err == nil && len(secret) < minSecret:
		err = fmt.Errorf("%s holds %d characters: want %d at least", name, len(secret), minSecret)
	}
	if err != nil {
		return "", fmt.Errorf("read the secret of the cluster (stream.cluster.secret_file): %w", err)
	}
	return secret, nil
}

// routeUser is as whom a member connects to the others.
const routeUser = "member"

// A peer that does not answer two pings is left: otherwise one that is frozen, or whose machine is gone, swallows
// requests for long.
const (
	routePing     = 500 * time.Millisecond
	routePingsOut = 2
)

// aloneName is the name of a server that stands alone.
const aloneName = "loaderd"

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// serverName makes a name for a new member: of the host where the others reach it, else of the machine, and the port of
// routes. It is unique in a cluster, and the same again for a member that lost its disk: it takes its old place.
func (c Cluster) serverName() (string, error) {
	if c.Name == "" {
		return aloneName, nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("read address of routes (stream.cluster.listen): %w", err)
	}
	if at, forwarded, err := net.SplitHostPort(c.Advertise); err == nil && !everywhere(at) {
		host, port = at, forwarded
	}
	if everywhere(host) {
		host, err = os.Hostname()
	}
	if err != nil || host == "" || host == "localhost" {
		var random [8]byte
		rand.Read(random[:]) //nolint:errcheck // it never returns one
		host = hex.EncodeToString(random[:])
	}
	return notInNames.ReplaceAllString(host, "-") + "-" + port, nil
}

// everywhere says whether a host is one that every machine has.
func everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && (ip.IsUnspecified() || ip.IsLoopback())
}

// options are the server's options for its routes.
func (c Cluster) options(secret string) (server.ClusterOpts, []*url.URL, error) {
	if c.Name == "" {
		return server.ClusterOpts{}, nil, nil
	}
	host, port, err := hostPort(c.Listen)
	if err != nil {
		return server.ClusterOpts{}, nil, fmt.Errorf("read address of routes (stream.cluster.listen): %w", err)
	}
	opts := server.ClusterOpts{
		Name: c.Name, Host: host, Port: port, Advertise: c.Advertise, PingInterval: routePing, MaxPingsOut: routePingsOut,
		Username: routeUser, Password: access.Derived(secret, "routes"), TLSTimeout: tlsTimeout,
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
