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

// A client may cancel resetsPerSecond calls of a connection beyond a burst. The burst is somewhat larger than the
// number of calls that it may have open.
const (
	resetsPerSecond = 10
	resetsBurst     = 2 * maxCalls
	// These limits apply if the host has recently lost a connection for cancelling calls, or if the identity has
	// cancelled too many. Otherwise such a client would open one connection after the other.
	strictResetsPerSecond = 1
	strictResetsBurst     = 8
)

// connectionListener is a listener that makes the connection of a call accessible and reports the end of each
// connection.
type connectionListener struct {
	*connlimit.Listener
	onClose func(session.Connection)
}

func (l connectionListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c.(*connlimit.Conn), onClose: l.onClose, resets: newTokenBucket(resetsPerSecond, resetsBurst),
		strictResets: rate.NewLimiter(strictResetsPerSecond, strictResetsBurst)}, nil
}

// connection is a connection of a client. gRPC exposes only the address of a connection to a call, so the address
// refers to the connection.
type connection struct {
	*connlimit.Conn
	onClose      func(session.Connection)
	strictResets *rate.Limiter // calls that the client may cancel if the host misuses connections

	mu     sync.Mutex
	resets *tokenBucket // calls that it may cancel, minus the open ones
	closed atomic.Bool
	isCut  atomic.Bool
}

// remoteAddr is the remote address of a connection.
type remoteAddr struct {
	net.Addr
	connection *connection
}

func (c *connection) RemoteAddr() net.Addr { return remoteAddr{c.Conn.RemoteAddr(), c} }

// Close implements net.Conn. gRPC calls it whichever side ended the connection.
func (c *connection) Close() error {
	err := c.Conn.Close()
	if !c.closed.Swap(true) {
		c.onClose(c)
	}
	return err
}

// Closed implements session.Connection.
func (c *connection) Closed() bool { return c.closed.Load() }

// Cut implements session.Connection. Unsent data is discarded, also in the kernel. gRPC then closes the connection.
func (c *connection) Cut() (first bool) {
	if c.isCut.Swap(true) {
		return false
	}
	c.Conn.Cut()
	return true
}

// chargeReset counts a new call as cancelled until refundReset is called. It runs before the call uses any resources,
// because a client can send many calls before the end of the first is observed. If the limit is exceeded it returns
// false and ends the connection.
func (c *connection) chargeReset() bool {
	if c.closed.Load() || c.isCut.Load() {
		return false
	}
	c.mu.Lock()
	ok := c.resets.takeToken(time.Now())
	c.mu.Unlock()
	if !ok {
		c.closeForMisuse()
	}
	return ok
}

// refundReset records that the client did not cancel a call.
func (c *connection) refundReset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resets.returnToken()
}

// recordCancel records a call that the client cancelled, or that was refused before it started. It ends the connection
// if the lower limit applies and is exceeded: the host misuses connections, or the identity has reached its limit
// (few).
func (c *connection) recordCancel(few bool) {
	if (few || c.HasHostMisuse()) && !c.strictResets.Allow() {
		c.closeForMisuse()
	}
}

func (c *connection) closeForMisuse() {
	if !c.closed.Load() && !c.isCut.Swap(true) {
		c.CloseForMisuse("too many cancelled or refused calls")
	}
}

// connectionFromContext returns the connection of a call, nil if it did not arrive over one of connections.
func connectionFromContext(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		if r, ok := p.Addr.(remoteAddr); ok {
			return r.connection
		}
	}
	return nil
}
