package webui

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"loaderd/loader/fault"
)

// contentSecurityPolicy permits the page to load its own files and to connect to its own daemon only.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src " +
	"'self'; " +
	"base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// protect sets security headers on all responses, and rejects requests that a page of another site may have sent.
func protect(c Config, next http.Handler) http.Handler {
	names := append([]string{"localhost"}, c.HostNames...)
	if own, err := os.Hostname(); err == nil {
		names = append(names, own)
	}
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		writeError(w, &fault.Error{Reason: fault.Forbidden, Message: "the request is from a page of another site",
			Advice: "send it from this daemon's own page, or by a program"})
	}))
	next = origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if !c.RequiresAuth() && !isOwnHost(names, q.Host) {
			writeError(w, foreignHostError(q.Host, names))
			return
		}
		next.ServeHTTP(w, q)
	})
}

// isOwnHost reports whether a Host header names this machine. In a DNS rebinding attack the Host header contains the
// name of the attacker's site.
func isOwnHost(names []string, host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return net.ParseIP(host) != nil || slices.ContainsFunc(names, func(n string) bool {
		return strings.EqualFold(n, host)
	})
}

func foreignHostError(host string, names []string) error {
	return &fault.Error{Reason: fault.Forbidden,
		Message: fmt.Sprintf(
			"the request names the host %.100q, and no token is asked for: another site's page may have sent it", host),
		Advice: "ask by an IP address or by " + strings.Join(names, ", ") + "; behind a proxy have it send one of these as " +
			"Host, or ask for tokens (flight.identities)"}
}
