package auth

import (
	"crypto/x509"
	"slices"
)

// Caller describes the sender of an HTTP request as far as the request shows. A Gate identifies it.
type Caller struct {
	Authorization []string          // values of that header
	Address       string            // host:port of the request's sender
	Certificate   *x509.Certificate // of the client, if it was verified
	Forwarded     bool              // by a proxy, whose address is Address
	MayRead       bool              // without a token, if only the token of the data folder is required
}

// IsLocal reports whether the caller is on this machine, as far as a request shows.
func (c Caller) IsLocal() bool { return IsLoopback(c.Address) && !c.Forwarded }

// proxyHeaders are the headers of requests that a proxy forwards.
var proxyHeaders = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// IsForwarded reports whether a request has a header that proxies add: its caller may be on any machine, whatever the
// address of the request. values returns the headers of a name.
func IsForwarded(values func(name string) []string) bool {
	return slices.ContainsFunc(proxyHeaders, func(name string) bool { return len(values(name)) > 0 })
}
