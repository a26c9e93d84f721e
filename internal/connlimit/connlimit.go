// Package connlimit bounds the connections of a server before their callers are identified: all of them, those of one
// host, the time without an identified request, and the bytes that a host sends in it.
package connlimit

import (
	"container/list"
	"log/slog"
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
	// Spare is how many connections are accepted beyond these bounds where no other can be closed for them. Their
	// requests are refused, except those that need no identity.
	Spare int
	// IdentifyWithin is how long a connection may stay without an identified request.
	IdentifyWithin time.Duration
	Log            *slog.Logger
}

const (
	// unidentifiedBytes is how many bytes per second a host may send over connections without an identified request,
	// beyond a burst: all frames and handshakes that cost processor time before the caller is known.
	unidentifiedBytes = 256 << 10
	unidentifiedBurst = 4 << 20
	// misuseFor is for how long a misuse is remembered of a host.
	misuseFor = 10 * time.Second
	// spareLife is how long a spare connection stays.
	spareLife = 5 * time.Second
	// maxHosts is how many hosts without connections are remembered.
	maxHosts = 4096
)

// Listener accepts connections within the bounds of a Config. At a bound it closes the oldest connection without an
// identified request, else the one whose last such request ended first. Where all serve identified requests it refuses
// the newcomer.
type Listener struct {
	net.Listener
	config  Config
	samples *logsample.Sampler

	mu    sync.Mutex
	queue queue
	hosts map[netip.Prefix]*host
}

// state is what may become of a connection.
type state int

const (
	unidentified state = iota // may be closed first
	idle                      // may be closed next: it has had identified requests and serves none
	spare                     // may be closed for another spare connection
	busy                      // serves an identified request
	states
)

// queue holds connections by state, the one that is closed first at the front.
type queue [states]list.List

func (q *queue) open() int { return q[unidentified].Len() + q[idle].Len() + q[busy].Len() }

// evictable returns the connection that is closed for a newcomer, nil where all serve identified requests.
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
	queue       queue
	bytes       *rate.Limiter // that it sends unidentified
	misused     time.Time
	connections int // of any state
}

// New returns a Listener over l.
func New(l net.Listener, c Config) *Listener {
	return &Listener{Listener: l, config: c, samples: logsample.New(), hosts: map[netip.Prefix]*host{}}
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
		cut(inner)
	}
}

// admit returns the connection if it may be served.
func (l *Listener) admit(inner net.Conn) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.host(HostOf(inner.RemoteAddr().String()))
	c := &Conn{Conn: inner, listener: l, host: h, closed: make(chan struct{})}
	life, evicted, full := l.config.IdentifyWithin, (*Conn)(nil), ""
	switch {
	case h.queue.open() >= l.config.MaxPerHost:
		full, evicted = "limit per host", h.queue.evictable()
	case l.queue.open() >= l.config.Max:
		full, evicted = "limit", l.queue.evictable()
	}
	if full != "" && evicted == nil {
		if l.config.Spare == 0 {
			l.refused(inner, full)
			return nil
		}
		if l.queue[spare].Len() >= l.config.Spare {
			evicted = l.queue[spare].Front().Value.(*Conn)
		}
		c.state, life = spare, spareLife
	}
	if evicted != nil {
		l.refused(evicted, full)
		evicted.remove()
		cut(evicted.Conn)
	}
	h.connections++
	c.enter(c.state)
	c.expiry = time.AfterFunc(life, c.expire)
	return c
}

// host returns a host by name. The caller holds mu, as of all methods below.
func (l *Listener) host(name netip.Prefix) *host {
	h := l.hosts[name]
	if h != nil {
		return h
	}
	if len(l.hosts) >= maxHosts {
		for n, h := range l.hosts {
			if h.connections == 0 {
				delete(l.hosts, n)
			}
		}
	}
	h = &host{bytes: rate.NewLimiter(unidentifiedBytes, unidentifiedBurst)}
	l.hosts[name] = h
	return h
}

func (l *Listener) refused(c net.Conn, cause string) {
	l.samples.Log(l.config.Log, slog.LevelWarn, "closed a connection", "address", c.RemoteAddr().String(), "cause", cause)
}

// HostOf returns the host of an address, host:port: an IPv4 address, or the prefix of 64 bits that one party has of IPv6.
func HostOf(address string) netip.Prefix {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := a.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}
