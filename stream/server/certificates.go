package server

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/auth"
)

// certificates are the server's certificates for clients, which need none, and for the other members of its
// cluster, which need one.
type certificates struct{ clients, members *auth.Certificates }

func openCertificates(o Options) (c certificates, err error) {
	if c.clients, err = auth.OpenCertificates(o.Cert, o.Key, ""); err == nil && o.Cluster.Name != "" {
		c.members, err = auth.OpenCertificates(o.Cert, o.Key, o.CA)
	}
	if err != nil {
		return c, fmt.Errorf("serve NATS over TLS (stream.tls): %w", err)
	}
	return c, nil
}

// tlsTimeout bounds a TLS handshake, in seconds. The server's default of two is too short on a busy machine.
const tlsTimeout = 10

// applyTo sets the TLS configuration of routes. The proxy uses the certificates for clients.
func (c certificates) applyTo(o *server.Options) {
	if c.members == nil {
		return
	}
	if mutual := c.members.MutualConfig(); mutual != nil {
		o.Cluster.TLSConfig = mutual
	}
}

// Reloaders returns the certificates and tokens that have to be reloaded when their files change, by purpose.
func (s *Server) Reloaders() map[string]auth.Reloader {
	all := map[string]auth.Reloader{"nats certificate": s.certs.clients, "nats tokens": s.users}
	if s.certs.members != nil {
		all["cluster certificate"] = s.certs.members
	}
	return all
}
