package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loaderd/arrowout"
	"loaderd/loader"
)

// sealingRun is a run that can be sealed, and nothing else.
type sealingRun struct{ arrowout.Run }

func (sealingRun) Info() loader.Info                    { return loader.Info{Run: "r"} }
func (sealingRun) Seal(context.Context) (uint64, error) { return 7, nil }

// sealingServer returns the address of a Flight server on loopback.
func sealingServer(t *testing.T, change func(*arrowout.Config)) string {
	t.Helper()
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	change(&cfg)
	s, err := arrowout.NewServer(cfg, sealingRun{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

// selfSigned writes a certificate for 127.0.0.1, which is its own authority, and its key.
func selfSigned(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// Every way to meet a server with the wrong flags says which flags are right.
func TestFlightClient(t *testing.T) {
	serverCert, serverKey := selfSigned(t, "server")
	clientCert, clientKey := selfSigned(t, "client")
	otherCert, otherKey := selfSigned(t, "other")
	plain := sealingServer(t, func(*arrowout.Config) {})
	secure := sealingServer(t, func(c *arrowout.Config) { c.Cert, c.Key = serverCert, serverKey })
	mutual := sealingServer(t, func(c *arrowout.Config) { c.Cert, c.Key, c.ClientCA = serverCert, serverKey, clientCert })
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"plain", []string{"--flight", "grpc://" + plain}, exitOK, "ends behind document 7"},
		{"TLS", []string{"--flight", "grpc+tls://" + secure, "--tls-ca", serverCert}, exitOK, "ends behind document 7"},
		{"mutual TLS", []string{"--flight", "grpc+tls://" + mutual, "--tls-ca", serverCert, "--tls-cert", clientCert, "--tls-key", clientKey}, exitOK, "ends behind document 7"},
		{"plain to TLS", []string{"--flight", "grpc://" + secure}, exitFailed, "--flight grpc+tls://" + secure},
		{"TLS to plain", []string{"--flight", "grpc+tls://" + plain}, exitFailed, "--flight grpc://" + plain},
		{"no authority", []string{"--flight", "grpc+tls://" + secure}, exitFailed, "--tls-ca"},
		{"no client certificate", []string{"--flight", "grpc+tls://" + mutual, "--tls-ca", serverCert}, exitFailed, "--tls-cert and --tls-key"},
		{"another client certificate", []string{"--flight", "grpc+tls://" + mutual, "--tls-ca", serverCert, "--tls-cert", otherCert, "--tls-key", otherKey}, exitFailed, "--tls-cert and --tls-key"},
		{"no key", []string{"--flight", "grpc+tls://" + mutual, "--tls-cert", clientCert}, exitUsage, "--tls-key"},
		{"certificates without TLS", []string{"--flight", "grpc://" + plain, "--tls-ca", serverCert}, exitUsage, "grpc+tls://"},
		{"no server", []string{"--flight", "grpc://127.0.0.1:1"}, exitFailed, "is loaderd serve running at 127.0.0.1:1?"},
		{"no server with TLS", []string{"--flight", "grpc+tls://127.0.0.1:1"}, exitFailed, "is loaderd serve running at 127.0.0.1:1?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"seal"}, c.args...), nil, &out, &errs)
			if said := out.String() + errs.String(); code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("exit %d, %q; want exit %d and %q", code, said, c.code, c.says)
			}
		})
	}
}
