package arrowout

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/peer"
)

// connections is a listener whose connections can be found by the calls that come over them, and tell of their end.
type connections struct {
	net.Listener
	ended func(*connection)
}

func (l connections) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, ended: l.ended}, nil
}

// connection is one of a client's. gRPC shows a call nothing of it but its address, so that the address names it.
type connection struct {
	net.Conn
	ended  func(*connection)
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

// cut ends a connection at once: what is still to be sent is thrown away, by the kernel as well. gRPC then closes it. It says whether it is the first to do so.
func (c *connection) cut() bool {
	if c.isCut.Swap(true) {
		return false
	}
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // else an error of one that is closed, which it is to be
	}
	_ = c.Conn.Close()
	return true
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
