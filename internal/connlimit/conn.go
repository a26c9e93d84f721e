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
	listener      *Listener
	host          *host
	wasIdentified atomic.Bool
	closed        chan struct{}

	// Under the mutex of listener:
	state                    state
	requests                 int // identified, open
	removed                  bool
	misused                  bool
	served                   bool // a request without an identity was served
	expiry                   *time.Timer
	listElement, hostElement *list.Element // of the queues of listener and host
}

// BeginIdentified records an identified request, until done is called. Meanwhile the connection is not closed for other
// ones.
func (c *Conn) BeginIdentified() (done func()) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.host.known = true
	if c.requests++; c.requests == 1 && c.state != spare {
		c.expiry.Stop()
		c.wasIdentified.Store(true)
		c.setState(busy)
	}
	return func() {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		if c.requests--; c.requests == 0 && c.state == busy {
			c.setState(idle)
		}
	}
}

// MarkServed records a request that needs no identity, such as a health check.
func (c *Conn) MarkServed() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.served = true
}

// IsSpare reports whether the connection is beyond the bounds: it serves only requests that need no identity.
func (c *Conn) IsSpare() bool {
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

// HasHostMisuse reports whether a connection of the host was recently closed for misuse.
func (c *Conn) HasHostMisuse() bool {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return time.Since(c.host.misused) < misusePeriod
}

// CloseForMisuse closes the connection, and records the misuse of its host for a while.
func (c *Conn) CloseForMisuse(cause string) {
	c.listener.mu.Lock()
	c.host.misused, c.misused = time.Now(), true
	c.listener.logClosed(c, cause)
	c.listener.mu.Unlock()
	c.Cut()
}

// Cut closes the connection immediately. Unsent data is discarded, also in the kernel.
func (c *Conn) Cut() {
	c.discard()
	resetConnection(c.Conn)
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.discard()
	return c.Conn.Close()
}

// Read reads data from the host. Without an identified request it waits if the host has sent too much.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.wasIdentified.Load() || n == 0 {
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
	late := !c.wasIdentified.Load() && !c.removed
	l.mu.Unlock()
	if late {
		l.samples.Log(l.config.Log, slog.LevelInfo, "closed a connection without an identified request",
			"address", logAddress{c.RemoteAddr()})
		c.Cut()
	}
}

func (c *Conn) discard() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.removeFromCounts()
}

// removeFromCounts removes the connection from the counts. The caller holds the mutex of listener, as for all methods
// below.
func (c *Conn) removeFromCounts() {
	if c.removed {
		return
	}
	c.removed = true
	close(c.closed)
	c.expiry.Stop()
	c.dequeue()
	c.host.connections--
	switch {
	case c.misused:
		c.listener.countUnused(c.host)
	case c.wasIdentified.Load():
	case c.served:
		countEnded(c.host.open)
	default:
		c.listener.countUnused(c.host)
	}
}

func (c *Conn) setState(to state) {
	if !c.removed {
		c.dequeue()
		c.enqueue(to)
	}
}

func (c *Conn) enqueue(to state) {
	c.state = to
	c.listElement, c.hostElement = c.listener.queue[to].PushBack(c), c.host.queue[to].PushBack(c)
}

func (c *Conn) dequeue() {
	c.listener.queue[c.state].Remove(c.listElement)
	c.host.queue[c.state].Remove(c.hostElement)
}

// resetConnection closes a connection with a reset.
func resetConnection(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // an error means that the connection is already closed
	}
	_ = c.Close()
}
