package objects

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// maxRedirects is the maximum number of redirects that are followed, the limit of net/http.
const maxRedirects = 10

// redirectError is a redirect that is not followed.
type redirectError struct{ reason string }

func (e *redirectError) Error() string { return "it redirects to " + e.reason }

// webClient returns a client for untrusted servers. Their redirects are not followed to addresses within this machine
// or its network, unless the source's own address is one. Redirected requests have no Referer, which could contain a
// secret.
func webClient(transport *http.Transport, private func(netip.Addr) bool) *http.Client {
	outside := transport.Clone()
	outside.DialContext = (&net.Dialer{Timeout: 30 * time.Second, ControlContext: func(_ context.Context, _,
		address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil && private(at.Addr().Unmap()) {
			err = &redirectError{fmt.Sprintf("the address %s of this machine or its network", at.Addr())}
		}
		return err
	}}).DialContext
	return &http.Client{Transport: &webTransport{transport, outside, private}, CheckRedirect: checkRedirect}
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return &redirectError{fmt.Sprintf("other addresses more than %d times", maxRedirects)}
	}
	if r.URL.Scheme != "https" && r.URL.Scheme != "http" {
		return &redirectError{fmt.Sprintf("an address with the scheme %q, which is not https or http", r.URL.Scheme)}
	}
	r.Header.Del("Referer")
	return nil
}

// webTransport sends redirected requests over separate connections. Their addresses are checked when they are opened,
// because the resolution of a name can change before that.
type webTransport struct {
	direct, public *http.Transport
	private        func(netip.Addr) bool
}

// sourceKey is the context key of the source of a request, which redirects inherit.
type sourceKey struct{}

// sourceAddress describes the address of a source.
type sourceAddress struct{ private bool }

// RoundTrip implements http.RoundTripper.
func (t *webTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	source, ok := r.Context().Value(sourceKey{}).(*sourceAddress)
	if !ok {
		return nil, errors.New("a request of no source")
	}
	proxied, err := t.direct.Proxy(r)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Response == nil: // not a redirect
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			at, err := netip.ParseAddrPort(c.Conn.RemoteAddr().String())
			source.private = proxied == nil && err == nil && t.private(at.Addr().Unmap())
		}}
		return t.direct.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	case source.private:
		return t.direct.RoundTrip(r)
	case proxied != nil: // the proxy resolves the name
		at, err := netip.ParseAddr(r.URL.Hostname())
		if err == nil && t.private(at.Unmap()) || strings.EqualFold(r.URL.Hostname(), "localhost") {
			return nil, &redirectError{"the address " + r.URL.Hostname() + " of the proxy's machine or its network"}
		}
		return t.direct.RoundTrip(r)
	}
	return t.public.RoundTrip(r)
}

var (
	sharedAddresses     = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	translatedAddresses = netip.MustParsePrefix("64:ff9b::/96")  // RFC 6052: can contain any IPv4 address
)

// isPrivate reports whether an address belongs to this machine, its link or its network.
func isPrivate(at netip.Addr) bool {
	return !at.IsGlobalUnicast() || at.IsPrivate() || sharedAddresses.Contains(at) || translatedAddresses.Contains(at)
}
