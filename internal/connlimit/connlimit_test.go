package connlimit_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/connlimit"
)

// site is a listener with its accepted connections.
type site struct {
	*connlimit.Listener
	accepted chan *connlimit.Conn
}

func listen(t *testing.T, c connlimit.Config) site {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.IdentifyTimeout == 0 {
		c.IdentifyTimeout = time.Hour
	}
	s := site{connlimit.New(inner, c), make(chan *connlimit.Conn, 1000)}
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			s.accepted <- c.(*connlimit.Conn)
		}
	})
	t.Cleanup(func() {
		_ = s.Close()
		ended.Wait()
		close(s.accepted)
		for c := range s.accepted {
			_ = c.Close()
		}
	})
	return s
}

// dial opens a connection from a host on loopback.
func (s site) dial(t *testing.T, host string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	c, err := d.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connect opens a connection that is accepted.
func (s site) connect(t *testing.T, host string) (net.Conn, *connlimit.Conn) {
	t.Helper()
	c := s.dial(t, host)
	accepted := <-s.accepted
	t.Cleanup(func() { _ = accepted.Close() })
	return c, accepted
}

// isClosed waits until the other end has closed a connection.
func isClosed(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a closed connection", err)
	}
}

// isOpen sends a byte in both directions.
func isOpen(t *testing.T, c net.Conn, accepted *connlimit.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Errorf("write: %v", err)
	}
	if _, err := io.ReadFull(accepted, make([]byte, 1)); err != nil {
		t.Errorf("read: %v", err)
	}
}

func TestListener_ClosesOldestUnidentifiedConnection(t *testing.T) {
	for name, config := range map[string]connlimit.Config{"of all": {Max: 3, MaxPerHost: 100},
		"of a host": {Max: 100, MaxPerHost: 3}} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, config)
			first, one := s.connect(t, "127.0.0.1")
			second, _ := s.connect(t, "127.0.0.1")
			third, three := s.connect(t, "127.0.0.1")
			done := one.BeginIdentified()
			_, _ = s.connect(t, "127.0.0.1")
			isClosed(t, second)
			isOpen(t, first, one)
			isOpen(t, third, three)
			done()
			_, _ = s.connect(t, "127.0.0.1")
			isClosed(t, third)
			isOpen(t, first, one)
			if n := s.Open(); n != 3 {
				t.Errorf("%d connections are open", n)
			}
		})
	}
}

func TestListener_RefusesWhenAllConnectionsServeRequests(t *testing.T) {
	s := listen(t, connlimit.Config{Max: 2, MaxPerHost: 2})
	first, one := s.connect(t, "127.0.0.1")
	_, two := s.connect(t, "127.0.0.1")
	done := one.BeginIdentified()
	two.BeginIdentified()
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil { // otherwise it was refused before the call returned
		isClosed(t, c)
	}
	isOpen(t, first, one)
	done() // it is idle now
	_, _ = s.connect(t, "127.0.0.1")
	isClosed(t, first)
}

func TestListener_HostLimitDoesNotAffectOtherHosts(t *testing.T) {
	s := listen(t, connlimit.Config{Max: 100, MaxPerHost: 2})
	other, accepted := s.connect(t, "127.0.0.2")
	for range 10 {
		s.connect(t, "127.0.0.1")
	}
	isOpen(t, other, accepted)
	if n := s.Open(); n != 3 {
		t.Errorf("%d connections are open", n)
	}
}

func TestListener_SpareConnectionsServeHealth(t *testing.T) {
	s := listen(t, connlimit.Config{Max: 1, MaxPerHost: 1, Spare: 1})
	_, one := s.connect(t, "127.0.0.1")
	one.BeginIdentified()
	first, two := s.connect(t, "127.0.0.1")
	if one.IsSpare() || !two.IsSpare() {
		t.Errorf("spare: %v and %v", one.IsSpare(), two.IsSpare())
	}
	second, three := s.connect(t, "127.0.0.1")
	isClosed(t, first)
	isOpen(t, second, three)
}

func TestListener_ClosesUnidentifiedConnectionsAfterTimeout(t *testing.T) {
	s := listen(t, connlimit.Config{Max: 10, MaxPerHost: 10, IdentifyTimeout: time.Millisecond})
	c, err := net.Dial("tcp", s.Addr().String())
	if err == nil {
		defer c.Close()
		isClosed(t, c)
	} else if !errors.Is(err, syscall.ECONNRESET) { // reset before the call returns
		t.Fatal(err)
	}
	<-s.accepted
	if n := s.Open(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

func TestListener_RemembersHostMisuse(t *testing.T) {
	s := listen(t, connlimit.Config{Max: 1000, MaxPerHost: 1000})
	first, one := s.connect(t, "127.0.0.1")
	one.CloseForMisuse("resets")
	isClosed(t, first)
	_, two := s.connect(t, "127.0.0.1")
	_, three := s.connect(t, "127.0.0.2")
	if !two.HasHostMisuse() || three.HasHostMisuse() {
		t.Errorf("misuse of the host: %v, of another one: %v", two.HasHostMisuse(), three.HasHostMisuse())
	}
}

// accepts opens connections of a host one after the other, and the server ends each. It returns how many are accepted
// before one is refused, or their number if none is.
func (s site) accepts(t *testing.T, host string, connections int, end func(*connlimit.Conn)) int {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	for n := range connections {
		c, err := dialer.Dial("tcp", s.Addr().String())
		if errors.Is(err, syscall.ECONNRESET) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			isClosed(t, c)
		}()
		select {
		case accepted := <-s.accepted:
			end(accepted)
			<-closed
		case <-closed:
			return n
		}
		_ = c.Close()
	}
	return connections
}

func TestListener_BoundsConnectionsWithoutRequest(t *testing.T) {
	s := listen(t, connlimit.Config{Max: 4, MaxPerHost: 4})
	const burst, openBurst, many = 64, 1024, 2000
	for host, bounded := range map[string]func(*connlimit.Conn){
		"127.0.0.2": func(c *connlimit.Conn) { _ = c.Close() },
		"127.0.0.3": func(c *connlimit.Conn) {
			c.BeginIdentified()
			c.CloseForMisuse("test")
		},
	} {
		if n := s.accepts(t, host, many, bounded); n < burst || n == many {
			t.Errorf("%s: %d of %d connections are accepted, want %d and some", host, n, many, burst)
		}
	}
	served := func(c *connlimit.Conn) {
		c.MarkServed()
		_ = c.Close()
	}
	if n := s.accepts(t, "127.0.0.5", many, served); n < openBurst || n == many {
		t.Errorf("%d of %d connections with a request are accepted, want %d and some", n, many, openBurst)
	}
	used := func(c *connlimit.Conn) {
		c.BeginIdentified()()
		_ = c.Close()
	}
	if n := s.accepts(t, "127.0.0.4", many, used); n != many {
		t.Errorf("connection %d is closed although all before had an identified request", n)
	}
}

// Attackers from many hosts cannot spend more processor time than the limit for all unknown hosts. They cannot keep out
// a known host.
func TestListener_BoundsConnectionsOfUnknownHosts(t *testing.T) {
	s := listen(t, connlimit.Config{Max: 4, MaxPerHost: 4})
	_, trainer := s.connect(t, "127.0.0.1")
	trainer.BeginIdentified()()
	const hosts, each, all = 20, 60, 128
	accepted := 0
	for i := range hosts {
		accepted += s.accepts(t, fmt.Sprintf("127.0.1.%d", i), each, func(c *connlimit.Conn) { _ = c.Close() })
	}
	if accepted < all || accepted == hosts*each {
		t.Errorf("%d connections of %d hosts are accepted, want %d and some", accepted, hosts, all)
	}
	c, second := s.connect(t, "127.0.0.1")
	isOpen(t, c, second)
}

func addressOf(text string) net.Addr {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return &net.UnixAddr{Name: text}
	}
	return net.TCPAddrFromAddrPort(a)
}

func TestHostOf_MasksAddresses(t *testing.T) {
	for address, want := range map[string]string{"127.0.0.1:1": "127.0.0.1/32", "[::ffff:10.0.0.1]:1": "10.0.0.1/32",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "nothing": "invalid Prefix"} {
		if got := connlimit.HostOf(addressOf(address)).String(); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
