package arrowout

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"

	"loaderd/arrowout/internal/session"
	"loaderd/internal/connlimit"
)

// A client may give up resetsPerSecond calls of a connection beyond a burst: as many as it may have open, and some
// more.
const (
	resetsPerSecond = 10
	resetsBurst     = 2 * maxCalls
	// Where the host has lost a connection by that lately, or the identity has given up too many, these hold: it would
	// open one connection after the other.
	fewResetsPerSecond = 1
	fewResetsBurst     = 8
)

// connections is a listener whose connections can be found by the calls that come over them, and tell of their end.
type connections struct {
	*connlimit.Listener
	ended func(session.Connection)
}

func (l connections) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c.(*connlimit.Conn), ended: l.ended, resets: newAllowance(resetsPerSecond, resetsBurst),
		few: rate.NewLimiter(fewResetsPerSecond, fewResetsBurst)}, nil
}

// connection is one of a client's. gRPC shows a call nothing of it but its address, so that the address names it.
type connection struct {
	*connlimit.Conn
	ended func(session.Connection)
	few   *rate.Limiter // calls that the client may give up where the host misuses connections

	mu     sync.Mutex
	resets *allowance // calls that it may give up, less those that are open
	closed atomic.Bool
	isCut  atomic.Bool
}

// remote is the address of the other end of a connection.
type remote struct {
	net.Addr
	connection *connection
}

func (c *connection) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

// Close is how gRPC gives a connection up, whoever ended it.
func (c *connection) Close() error {
	err := c.Conn.Close()
	if !c.closed.Swap(true) {
		c.ended(c)
	}
	return err
}

// Closed implements session.Connection.
func (c *connection) Closed() bool { return c.closed.Load() }

// Cut implements session.Connection. What is still to be sent is discarded, by the kernel as well. gRPC then closes the
// connection.
func (c *connection) Cut() (first bool) {
	if c.isCut.Swap(true) {
		return false
	}
	c.Conn.Cut()
	return true
}

// opened counts a call that begins as one that is given up, until endedByServer. It does so before the call costs
// anything, as a client can send many before the end of the first is seen. It returns false, and ends the connection,
// where there are too many.
func (c *connection) opened() bool {
	if c.closed.Load() || c.isCut.Load() {
		return false
	}
	c.mu.Lock()
	ok := c.resets.take(time.Now())
	c.mu.Unlock()
	if !ok {
		c.misuse()
	}
	return ok
}

// endedByServer notes that a call was not given up.
func (c *connection) endedByServer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resets.putBack()
}

// gaveUp notes a call that the client gave up, or that was refused before it began. It ends the connection where only
// few are permitted: where the host misuses connections, or the limit of the identity is reached.
func (c *connection) gaveUp(few bool) {
	if (few || c.HostMisuses()) && !c.few.Allow() {
		c.misuse()
	}
}

func (c *connection) misuse() {
	if !c.closed.Load() && !c.isCut.Swap(true) {
		c.Misuse("too many calls are given up or refused")
	}
}

// connectionOf is the connection of a call, nil if it did not come over one of connections.
func connectionOf(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		if r, ok := p.Addr.(remote); ok {
			return r.connection
		}
	}
	return nil
}
