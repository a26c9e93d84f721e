// Package connlimit bounds the connections of a server before their callers are identified: all of them, those of one
// host, the time without an identified request, the bytes that a host sends until then, and the rate of such
// connections per host, and of all hosts without an identified request yet.
package connlimit

import (
	"container/list"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"loaderd/internal/logsample"
)

// Config bounds the connections of a Listener.
type Config struct {
	// Max bounds the open connections, MaxPerHost those of one host: an IPv4 address or an IPv6 prefix of 64 bits.
	Max, MaxPerHost int
	// Spare is how many connections are accepted beyond these bounds if no other connection can be closed for them.
	// Their requests are refused, except those that need no identity.
	Spare int
	// IdentifyTimeout is the maximum time of a connection without an identified request.
	IdentifyTimeout time.Duration
	Log             *slog.Logger
}

const (
	// unidentifiedBytesPerSecond is how many bytes per second a host may send over connections without an identified
	// request, beyond a burst. It covers all frames and handshakes that cost processor time before the caller is
	// identified.
	unidentifiedBytesPerSecond = 256 << 10
	unidentifiedBurst          = 4 << 20
	// unusedPerSecond is how many connections per second of a host may end without an identified request, or by misuse,
	// beyond a burst. Each costs processor time for its goroutines, for TLS and for its end. Further connections of the
	// host are closed immediately. Clients of a cluster, with any number of processes behind one address, send
	// identified requests.
	unusedPerSecond = 16
	unusedBurst     = 64
	// unknownPerSecond is the same for all hosts together that have no identified request yet, so that the cost does not
	// grow with the number of attacking hosts. A host with identified requests is not affected.
	unknownPerSecond = 32
	unknownBurst     = 128
	// openPerSecond is the same for connections that have served a request without an identity, as health checks do.
	openPerSecond = 64
	openBurst     = 1024
	// refusedPerSecond is how many connections per second are closed immediately, beyond a burst. All others wait in the
	// kernel's queue, so that they cannot use up processor time.
	refusedPerSecond = 1000
	refusedBurst     = 64
	// misusePeriod is how long a misuse of a host is remembered.
	misusePeriod = 10 * time.Second
	// spareLifetime is the lifetime of a spare connection.
	spareLifetime = 5 * time.Second
	// maxHosts is how many hosts without connections are remembered. Those without an identified request are forgotten
	// first.
	maxHosts = 4096
)

// Listener accepts connections within the bounds of a Config. At a bound it closes the oldest connection without an
// identified request, else the one whose last such request ended first. If all serve identified requests, it refuses
// the new connection.
type Listener struct {
	net.Listener
	config        Config
	samples       *logsample.Sampler
	refuseLimiter *rate.Limiter // connections that are closed immediately
	unknown       *rate.Limiter // connections of unknown hosts that end without a request, or by misuse

	mu    sync.Mutex
	queue queue
	hosts map[netip.Prefix]*host
}

// state determines when a connection may be closed for another one.
type state int

const (
	unidentified state = iota // may be closed first
	idle                      // may be closed next: it has had identified requests, but serves none now
	spare                     // may be closed for another spare connection
	busy                      // serves an identified request
	stateCount
)

// queue holds connections by state, with the one to close first at the front.
type queue [stateCount]list.List

func (q *queue) openCount() int { return q[unidentified].Len() + q[idle].Len() + q[busy].Len() }

// evictable returns the connection to close for a new one, nil if all serve identified requests.
func (q *queue) evictable() *Conn {
	for _, of := range []state{unidentified, idle} {
		if front := q[of].Front(); front != nil {
			return front.Value.(*Conn)
		}
	}
	return nil
}

// host is the source address of connections.
type host struct {
	name        netip.Prefix
	queue       queue
	bytes       *rate.Limiter // bytes that it sends without an identified request
	unused      *rate.Limiter // connections that end without a request, or by misuse
	open        *rate.Limiter // connections that end after requests without an identity
	misused     time.Time
	known       bool // had an identified request
	connections int  // of any state
}

// countUnused counts a connection that ended without a request, or by misuse.
func (l *Listener) countUnused(h *host) {
	countEnded(h.unused)
	if !h.known {
		countEnded(l.unknown)
	}
}

// countEnded counts a connection that ended. Concurrent connections count beyond the burst, up to twice the burst, and
// until that is refilled the host opens no connections.
func countEnded(l *rate.Limiter) {
	if l.Tokens() > -float64(l.Burst()) {
		l.Reserve()
	}
}

// New returns a Listener over l.
func New(l net.Listener, c Config) *Listener {
	return &Listener{
		Listener: l, config: c, samples: logsample.New(), hosts: map[netip.Prefix]*host{},
		refuseLimiter: rate.NewLimiter(refusedPerSecond, refusedBurst),
		unknown:       rate.NewLimiter(unknownPerSecond, unknownBurst),
	}
}

// Accept waits for the next connection within the bounds, a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(inner); c != nil {
			return c, nil
		}
		resetConnection(inner)
		if wait := l.refuseLimiter.Reserve().Delay(); wait > minPause {
			time.Sleep(wait)
		}
	}
}

// minPause is the shortest pause of Accept, because timers of a few microseconds cost more than the connections.
const minPause = 2 * time.Millisecond

// admit returns the connection if it may be served.
func (l *Listener) admit(inner net.Conn) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.findHost(hostOf(inner.RemoteAddr()))
	if h.unused.Tokens() < 1 || h.open.Tokens() < 1 {
		l.logClosed(inner, "too many connections of the host without an identified request")
		return nil
	}
	if !h.known && l.unknown.Tokens() < 1 {
		l.logClosed(inner, "too many connections of unknown hosts without an identified request")
		return nil
	}
	c := &Conn{Conn: inner, listener: l, host: h, closed: make(chan struct{})}
	life, evicted, full := l.config.IdentifyTimeout, (*Conn)(nil), ""
	switch {
	case h.queue.openCount() >= l.config.MaxPerHost:
		full, evicted = "limit per host", h.queue.evictable()
	case l.queue.openCount() >= l.config.Max:
		full, evicted = "limit", l.queue.evictable()
	}
	if full != "" && evicted == nil {
		if l.config.Spare == 0 {
			l.logClosed(inner, full)
			return nil
		}
		if l.queue[spare].Len() >= l.config.Spare {
			evicted = l.queue[spare].Front().Value.(*Conn)
		}
		c.state, life = spare, spareLifetime
	}
	if evicted != nil {
		l.logClosed(evicted, full)
		evicted.removeFromCounts()
		resetConnection(evicted.Conn)
	}
	h.connections++
	c.enqueue(c.state)
	c.expiry = time.AfterFunc(life, c.expire)
	return c
}

// findHost returns a host by name. The caller holds mu, as for all methods below.
func (l *Listener) findHost(name netip.Prefix) *host {
	h := l.hosts[name]
	if h != nil {
		return h
	}
	for _, known := range []bool{false, true} {
		if len(l.hosts) >= maxHosts {
			maps.DeleteFunc(l.hosts, func(_ netip.Prefix, h *host) bool { return h.connections == 0 && h.known == known })
		}
	}
	h = &host{
		name: name, bytes: rate.NewLimiter(unidentifiedBytesPerSecond, unidentifiedBurst),
		unused: rate.NewLimiter(unusedPerSecond, unusedBurst), open: rate.NewLimiter(openPerSecond, openBurst),
	}
	l.hosts[name] = h
	return h
}

func (l *Listener) logClosed(c net.Conn, cause string) {
	l.samples.Log(l.config.Log, slog.LevelWarn, "closed a connection", "address", logAddress{c.RemoteAddr()},
		"cause", cause)
}

// logAddress is an address in a log, which is formatted only if the line is logged.
type logAddress struct{ net.Addr }

func (t logAddress) LogValue() slog.Value { return slog.StringValue(t.String()) }

// hostOf returns the host of an address: an IPv4 address, or the 64-bit prefix of IPv6 that one party has.
func hostOf(address net.Addr) netip.Prefix {
	a, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := a.AddrPort().Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}
