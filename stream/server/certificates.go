package server

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/access"
)

// certificates are what the server shows: to clients, who need none of their own, and to the other members of its
// cluster, who need one.
type certificates struct{ clients, members *access.Certificates }

func openCertificates(o Options) (c certificates, err error) {
	if c.clients, err = access.OpenCertificates(o.Cert, o.Key, ""); err == nil && o.Cluster.Name != "" {
		c.members, err = access.OpenCertificates(o.Cert, o.Key, o.CA)
	}
	if err != nil {
		return c, fmt.Errorf("serve NATS over TLS (stream.tls): %w", err)
	}
	return c, nil
}

// tlsTimeout bounds a handshake, in seconds: on a busy machine the server's default of two is short.
const tlsTimeout = 10

// use is for routes. The proxy uses those of clients.
func (c certificates) use(o *server.Options) {
	if c.members == nil {
		return
	}
	if mutual := c.members.Mutual(); mutual != nil {
		o.Cluster.TLSConfig = mutual
	}
}

// Reloaders are certificates and tokens, by what they are for, to be read again when they change.
func (s *Server) Reloaders() map[string]access.Reloader {
	all := map[string]access.Reloader{"nats certificate": s.certs.clients, "nats tokens": s.users}
	if s.certs.members != nil {
		all["cluster certificate"] = s.certs.members
	}
	return all
}
