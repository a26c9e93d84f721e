package natstest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Link is a TCP connection between clients and a server that can be cut and mended. It ends with the test.
type Link struct {
	t        testing.TB
	target   string
	listener net.Listener
	serve    sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	deaf  bool
	conns map[net.Conn]struct{}
}

// NewLink starts a link to the server at a nats:// URL.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatalf("natstest: link to %s: %v", target, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("natstest: link to %s: %v", target, err)
	}
	l := &Link{t: t, target: u.Host, listener: listener, conns: map[net.Conn]struct{}{}}
	l.serve.Go(l.accept)
	t.Cleanup(func() {
		listener.Close()
		l.Cut()
		l.serve.Wait()
	})
	return l
}

// URL is where clients reach the server by this link.
func (l *Link) URL() string { return "nats://" + l.listener.Addr().String() }

// Cut breaks all connections and refuses new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// Deafen loses whatever the server says from now on, until Cut and Mend: clients' messages arrive, answers do not.
func (l *Link) Deafen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = true
}

// Mend lets connections through again.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.deaf = false, false
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil || !l.keep(client, server) {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		l.serve.Go(func() { l.copy(server, client) })
		l.serve.Go(func() { l.copy(answers{client, l}, server) })
	}
}

func (l *Link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return false
	}
	for _, c := range conns {
		l.conns[c] = struct{}{}
	}
	return true
}

func (l *Link) copy(to io.WriteCloser, from io.ReadCloser) {
	io.Copy(to, from) //nolint:errcheck // ends when either side goes, which is the purpose
	to.Close()
	from.Close()
}

// answers is a client's connection that hears nothing while the link is deaf.
type answers struct {
	client net.Conn
	link   *Link
}

func (a answers) Write(b []byte) (int, error) {
	a.link.mu.Lock()
	deaf := a.link.deaf
	a.link.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return a.client.Write(b)
}

func (a answers) Close() error { return a.client.Close() }
