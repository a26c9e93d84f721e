package server

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// routeTLS returns the TLS configuration of routes between members without configured certificates. Its key is
// derived from the members' secret, so a handshake proves the secret without sending it. A process that listens on
// the port of a stopped member therefore cannot obtain the secret.
func routeTLS(secret string, addresses []string) (*tls.Config, error) {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("key of routes"))
	key := ed25519.NewKeyFromSeed(m.Sum(nil))
	loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: routeUser}, IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: loopback,
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue // no address is configured
		}
		if ip := net.ParseIP(host); ip != nil {
			made.IPAddresses = append(made.IPAddresses, ip)
		} else {
			made.DNSNames = append(made.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(nil, made, made, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of routes: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read certificate of routes: %w", err)
	}
	members := x509.NewCertPool()
	members.AddCert(leaf)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}},
		RootCAs:      members, ClientCAs: members, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
