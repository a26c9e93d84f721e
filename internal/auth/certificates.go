package auth

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Certificates are the certificate of a server, and the authorities that it accepts for client certificates.
type Certificates struct {
	cert, key, clientCA string
	tlsConfig           atomic.Pointer[tls.Config]
}

// OpenCertificates reads PEM files. Without cert the server does not use TLS. Without clientCA it requests no
// client certificate.
func OpenCertificates(cert, key, clientCA string) (*Certificates, error) {
	c := &Certificates{cert: cert, key: key, clientCA: clientCA}
	return c, c.Reload()
}

// Reload reads the files again, for later connections. After an error the previous certificates remain valid.
func (c *Certificates) Reload() error {
	if c.cert == "" {
		return nil
	}
	if err := CheckPrivate(c.key); err != nil {
		return fmt.Errorf("load key: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("load certificate %s and key %s: %w", c.cert, c.key, err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if c.clientCA != "" {
		pem, err := os.ReadFile(c.clientCA)
		if err != nil {
			return fmt.Errorf("read client CA: %w", err)
		}
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !t.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("read client CA %s: no PEM certificate in it", c.clientCA)
		}
	}
	c.tlsConfig.Store(t)
	return nil
}

// Config returns the configuration of a listener, nil without TLS. It always uses the certificates that were read
// last.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	if c.tlsConfig.Load() == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			t := c.tlsConfig.Load().Clone()
			t.NextProtos = protocols
			return t, nil
		}}
}

// MutualConfig returns the configuration of servers that are clients of each other: each uses its latest certificate,
// and requires one of the same authorities. The authorities of servers are those that were read first. It is nil
// without TLS.
func (c *Certificates) MutualConfig() *tls.Config {
	t := c.Config()
	if t == nil {
		return nil
	}
	t.RootCAs = c.tlsConfig.Load().ClientCAs
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &c.tlsConfig.Load().Certificates[0], nil
	}
	return t
}

// Files returns the files that Reload reads.
func (c *Certificates) Files() []string { return nonEmpty(c.cert, c.key, c.clientCA) }

// Expires returns when the server's certificate expires; zero without one.
func (c *Certificates) Expires() time.Time {
	t := c.tlsConfig.Load()
	if t == nil {
		return time.Time{}
	}
	return t.Certificates[0].Leaf.NotAfter
}
