package connlimit

import (
	"container/list"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	listener   *Listener
	host       *host
	identified atomic.Bool
	closed     chan struct{}

	// Under the mutex of listener:
	state    state
	requests int // identified, open
	removed  bool
	misused  bool
	served   bool // a request without an identity was served
	expiry   *time.Timer
	in, of   *list.Element // of the queues of listener and host
}

// Identified records an identified request, until done is called. Meanwhile the connection is not closed for other
// ones.
func (c *Conn) Identified() (done func()) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.requests++; c.requests == 1 && c.state != spare {
		c.expiry.Stop()
		c.identified.Store(true)
		c.move(busy)
	}
	return func() {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		if c.requests--; c.requests == 0 && c.state == busy {
			c.move(idle)
		}
	}
}

// Served records a request that needs no identity, such as a health check.
func (c *Conn) Served() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.served = true
}

// Spare reports whether the connection is beyond the bounds: it serves only requests that need no identity.
func (c *Conn) Spare() bool {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.state == spare
}

// Host returns the source of the connection: an IPv4 address or an IPv6 prefix of 64 bits.
func (c *Conn) Host() netip.Prefix { return c.host.name }

// SetWriteBuffer sets the size of the kernel's send buffer in bytes.
func (c *Conn) SetWriteBuffer(bytes int) error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.SetWriteBuffer(bytes)
	}
	return nil
}

// HostMisuses reports whether a connection of the host was recently closed for misuse.
func (c *Conn) HostMisuses() bool {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return time.Since(c.host.misused) < misuseFor
}

// Misuse closes the connection, and records the misuse of its host for a while.
func (c *Conn) Misuse(cause string) {
	c.listener.mu.Lock()
	c.host.misused, c.misused = time.Now(), true
	c.listener.refused(c, cause)
	c.listener.mu.Unlock()
	c.Cut()
}

// Cut closes the connection immediately. Unsent data is discarded, also in the kernel.
func (c *Conn) Cut() {
	c.discard()
	cut(c.Conn)
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.discard()
	return c.Conn.Close()
}

// Read reads data from the host. Without an identified request it waits if the host has sent too much.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.identified.Load() || n == 0 {
		return n, err
	}
	if wait := c.host.bytes.ReserveN(time.Now(), min(n, unidentifiedBurst)).Delay(); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closed:
		}
	}
	return n, err
}

// expire closes the connection if it had no identified request.
func (c *Conn) expire() {
	l := c.listener
	l.mu.Lock()
	late := !c.identified.Load() && !c.removed
	l.mu.Unlock()
	if late {
		l.samples.Log(l.config.Log, slog.LevelInfo, "closed a connection without an identified request",
			"address", text{c.RemoteAddr()})
		c.Cut()
	}
}

func (c *Conn) discard() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.remove()
}

// remove removes the connection from the counts. The caller holds the mutex of listener, as for all methods below.
func (c *Conn) remove() {
	if c.removed {
		return
	}
	c.removed = true
	close(c.closed)
	c.expiry.Stop()
	c.leave()
	c.host.connections--
	switch {
	case c.misused:
		count(c.host.unused)
	case c.identified.Load():
	case c.served:
		count(c.host.open)
	default:
		count(c.host.unused)
	}
}

func (c *Conn) move(to state) {
	if !c.removed {
		c.leave()
		c.enter(to)
	}
}

func (c *Conn) enter(to state) {
	c.state = to
	c.in, c.of = c.listener.queue[to].PushBack(c), c.host.queue[to].PushBack(c)
}

func (c *Conn) leave() {
	c.listener.queue[c.state].Remove(c.in)
	c.host.queue[c.state].Remove(c.of)
}

// cut closes a connection with a reset.
func cut(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // an error means that the connection is already closed
	}
	_ = c.Close()
}
