package conn

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// pingInterval is the interval of the client's pings. A server that is reachable sends at least the responses to them.
	pingInterval = 500 * time.Millisecond
	// maxPingsOut is the number of pings that may stay without a response if the client has no other server.
	maxPingsOut = 60
	// silenceTimeout is how long a server may send nothing before the client tries another one. Such a server is frozen or
	// cut off from the client.
	silenceTimeout = 3 * time.Second
	// silenceCheckInterval is the interval of the checks whether data was received. Silence is counted in checks, not in
	// time: a process that was stopped or hardly scheduled has not read in the meantime.
	silenceCheckInterval = 250 * time.Millisecond
)

var errSilent = errors.New("the server has fallen silent")

// trackedConn is a connection to a server that records whether data was received over it.
type trackedConn struct {
	net.Conn
	reading    atomic.Bool           // a goroutine waits in Read
	received   atomic.Bool           // data was received since the last check
	closeCause atomic.Pointer[error] // why it was closed
}

// closeFor closes the line, and the client reconnects to another server.
func (l *trackedConn) closeFor(why error) {
	l.closeCause.Store(&why)
	_ = l.Close()
}

// Read implements net.Conn.
func (l *trackedConn) Read(b []byte) (int, error) {
	l.reading.Store(true)
	n, err := l.Conn.Read(b)
	l.reading.Store(false)
	if n > 0 {
		l.received.Store(true)
	}
	if why := l.closeCause.Load(); err != nil && why != nil {
		err = *why
	}
	return n, err
}

// trackingDialer creates the client's connections, one after the other.
type trackingDialer struct {
	dialer  net.Dialer
	current atomic.Pointer[trackedConn]
}

// Dial implements nats.CustomDialer.
func (l *trackingDialer) Dial(network, address string) (net.Conn, error) {
	c, err := l.dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	made := &trackedConn{Conn: c}
	l.current.Store(made)
	return made, nil
}

// closeSilent closes the connection to a server that has fallen silent, so that the client reconnects to another
// server. If the client has no other server, it stays. closeSilent returns when ctx ends.
func (l *trackingDialer) closeSilent(ctx context.Context, nc *nats.Conn) {
	tick := time.NewTicker(silenceCheckInterval)
	defer tick.Stop()
	var of *trackedConn
	looks, others := 0, false // consecutive checks of this line that found no data
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := l.current.Load()
		if now != of || now.received.Swap(false) || !now.reading.Load() {
			of, looks = now, 0
			// Read the servers now: the client may hold its lock while it waits for a silent server to read.
			others = len(nc.Servers()) > 1
			continue
		}
		if looks++; others && looks >= int(silenceTimeout/silenceCheckInterval) {
			now.closeFor(errSilent)
			looks = 0
		}
	}
}
