package auth

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// LocalSigner proves to a daemon on this machine that a client can read the token of its data folder.
type LocalSigner struct{ file, address string }

// NewLocalSigner returns the LocalSigner for a data folder and an address, host:port. It is nil for an address that
// other machines may have.
func NewLocalSigner(dir, address string) *LocalSigner {
	if dir == "" || !IsLoopback(address) {
		return nil
	}
	return &LocalSigner{filepath.Join(dir, FlightTokenFile), LoopbackIP(address)}
}

// LoopbackIP replaces the host localhost by 127.0.0.1, because another process may listen on its other address.
func LoopbackIP(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// errNotLocal is the error for a daemon that may be on another machine.
var errNotLocal = errors.New("the daemon is not on this machine")

// Authorization returns the header of a call that is sent now. It reads the token for each call, because a daemon
// that starts later may create another one.
func (c *LocalSigner) Authorization() (string, error) {
	if c == nil {
		return "", errNotLocal
	}
	token, err := ReadToken(c.file)
	if err != nil {
		return "", fmt.Errorf("find the token of a daemon on this machine: %w", err)
	}
	return SignCall(token, c.address, time.Now()), nil
}
