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
	// pingEvery is how often the client asks the server whether it is there, so that one that is lets something be heard.
	pingEvery = 500 * time.Millisecond
	// pingsOut is how many of these may be without an answer where there is no other server to go to.
	pingsOut = 60
	// silentAfter is how long a server may say nothing before another one is tried: it is frozen, or cut off from us.
	silentAfter = 3 * time.Second
	// listenEvery is how often it is looked whether anything was heard. Silence is counted in looks: a process that was
	// stopped, or that hardly gets to run, has not listened meanwhile.
	listenEvery = 250 * time.Millisecond
)

var errSilent = errors.New("the server has fallen silent")

// line is a connection to a server that notes when something comes over it.
type line struct {
	net.Conn
	listening atomic.Bool           // somebody waits in Read
	heard     atomic.Bool           // something has come since the last look
	left      atomic.Pointer[error] // why it is given up
}

// leave gives the line up: the client goes to another server.
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

// lines makes the client's connections, one after the other.
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

// leaveSilent ends the connection to a server that has fallen silent, until ctx ends: the client goes to another one.
// Where it knows of no other it stays.
func (l *lines) leaveSilent(ctx context.Context, nc *nats.Conn) {
	tick := time.NewTicker(listenEvery)
	defer tick.Stop()
	var of *line
	looks, others := 0, false // looks at this line, one after the other, that found nothing
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := l.last.Load()
		if now != of || now.heard.Swap(false) || !now.listening.Load() {
			of, looks = now, 0
			// not later: the client may hold its lock while it waits for a silent server to take something
			others = len(nc.Servers()) > 1
			continue
		}
		if looks++; others && looks >= int(silentAfter/listenEvery) {
			now.leave(errSilent)
			looks = 0
		}
	}
}
