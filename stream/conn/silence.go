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
	// pingEvery is the interval of the client's pings. A server that is reachable sends at least the responses to them.
	pingEvery = 500 * time.Millisecond
	// pingsOut is the number of pings that may stay without a response if the client has no other server.
	pingsOut = 60
	// silentAfter is how long a server may send nothing before the client tries another one. Such a server is frozen or
	// cut off from the client.
	silentAfter = 3 * time.Second
	// listenEvery is the interval of the checks whether data was received. Silence is counted in checks, not in time: a
	// process that was stopped or hardly scheduled has not read in the meantime.
	listenEvery = 250 * time.Millisecond
)

var errSilent = errors.New("the server has fallen silent")

// line is a connection to a server that records whether data was received over it.
type line struct {
	net.Conn
	listening atomic.Bool           // a goroutine waits in Read
	heard     atomic.Bool           // data was received since the last check
	left      atomic.Pointer[error] // why it was closed
}

// leave closes the line, and the client reconnects to another server.
func (l *line) leave(why error) {
	l.left.Store(&why)
	_ = l.Close()
}

// Read implements net.Conn.
func (l *line) Read(b []byte) (int, error) {
	l.listening.Store(true)
	n, err := l.Conn.Read(b)
	l.listening.Store(false)
	if n > 0 {
		l.heard.Store(true)
	}
	if why := l.left.Load(); err != nil && why != nil {
		err = *why
	}
	return n, err
}

// lines creates the client's connections, one after the other.
type lines struct {
	dialer net.Dialer
	last   atomic.Pointer[line]
}

// Dial implements nats.CustomDialer.
func (l *lines) Dial(network, address string) (net.Conn, error) {
	c, err := l.dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	made := &line{Conn: c}
	l.last.Store(made)
	return made, nil
}

// leaveSilent closes the connection to a server that has fallen silent, so that the client reconnects to another
// server. If the client has no other server, it stays. leaveSilent returns when ctx ends.
func (l *lines) leaveSilent(ctx context.Context, nc *nats.Conn) {
	tick := time.NewTicker(listenEvery)
	defer tick.Stop()
	var of *line
	looks, others := 0, false // consecutive checks of this line that found no data
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := l.last.Load()
		if now != of || now.heard.Swap(false) || !now.listening.Load() {
			of, looks = now, 0
			// Read the servers now: the client may hold its lock while it waits for a silent server to read.
			others = len(nc.Servers()) > 1
			continue
		}
		if looks++; others && looks >= int(silentAfter/listenEvery) {
			now.leave(errSilent)
			looks = 0
		}
	}
}
