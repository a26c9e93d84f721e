package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"strconv"
	"strings"
	"time"
)

// SignedScheme is the scheme of an Authorization header with a signature of SignCall.
const SignedScheme = "Loaderd"

// A signature proves that its creator can read the token of a data folder, without sending the token: a process that
// listens on the daemon's address must not receive it. A signature is for one purpose and one address of the daemon,
// and is valid for a short time.
const (
	purposeCall = "call" // to Flight
	purposePage = "page" // to log in a page, once

	callLifetime     = time.Minute
	pageCodeLifetime = 10 * time.Minute
	maxClockSkew     = 5 * time.Second // maximum lead of a signer's clock

	macBytes = 16
)

// SignCall returns the Authorization header of a call to a Flight server on this machine, at host:port.
func SignCall(token, address string, now time.Time) string {
	return SignedScheme + " " + sign(token, purposeCall, address, now)
}

// SignPage returns a code that logs in the page of a daemon on this machine, once. address is host:port of its HTTP
// server.
func SignPage(token, address string, now time.Time) string {
	return sign(token, purposePage, address, now)
}

// sign returns MICROSECONDS.MAC: hexadecimal digits, and unpadded base64 (URL alphabet).
func sign(token, purpose, address string, now time.Time) string {
	stamp := strconv.FormatInt(now.UnixMicro(), 16)
	return stamp + "." + base64.RawURLEncoding.EncodeToString(mac(sha256.Sum256([]byte(token)), purpose, address, stamp))
}

func mac(key [32]byte, parts ...string) []byte {
	m := hmac.New(sha256.New, key[:])
	m.Write([]byte("loaderd " + strings.Join(parts, "\x00")))
	return m.Sum(nil)[:macBytes]
}

// endpoint is the address of a server of the daemon, and since when it listens.
type endpoint struct {
	address string
	since   time.Time
}

// verifySignature reports whether a signature was made with the daemon's token for its address, and returns when it was
// made.
func (e *endpoint) verifySignature(key [32]byte, purpose, signature string) (made time.Time, ok bool) {
	stamp, text, _ := strings.Cut(signature, ".")
	micro, err := strconv.ParseInt(stamp, 16, 64)
	if e == nil || err != nil {
		return made, false
	}
	sent, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return made, false
	}
	for _, address := range e.addresses() {
		ok = ok || hmac.Equal(sent, mac(key, purpose, address, stamp))
	}
	return time.UnixMicro(micro), ok
}

// isFresh reports whether a signature was made recently and while the server listened. Another process may have
// received an earlier one.
func (e *endpoint) isFresh(made time.Time, lasts time.Duration) bool {
	age := time.Since(made)
	return age > -maxClockSkew && age <= min(lasts, time.Since(e.since))
}

// addresses returns the addresses of the endpoint for this machine.
func (e *endpoint) addresses() []string {
	host, port, err := net.SplitHostPort(e.address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	return []string{e.address}
}
