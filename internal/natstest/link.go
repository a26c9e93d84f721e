package natstest

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Link is a TCP connection to a server that a test can cut, hold and restore. It ends with the test.
type Link struct {
	listener net.Listener
	serve    sync.WaitGroup

	mu      sync.Mutex
	target  string // host:port; empty refuses connections
	cut     bool
	ways    [2]way
	changed chan struct{} // closed and replaced when the state above changes
	pairs   map[*pair]struct{}
}

// The two directions of a link.
const (
	toServer = iota
	fromServer
)

// way is how a link treats data in one direction.
type way struct {
	deaf  bool          // data is lost
	held  bool          // data waits until Mend
	delay time.Duration // data is delayed by this duration
}

// NewLink starts a link to the server at a nats:// URL.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatalf("natstest: link to %s: %v", target, err)
	}
	l := listenLink(t)
	l.open(u.Host)
	return l
}

// listenLink returns a link whose connections wait until open sets their target.
func listenLink(t testing.TB) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("natstest: listen for a link: %v", err)
	}
	l := &Link{listener: listener, changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
	t.Cleanup(func() {
		listener.Close()
		l.Cut()
		l.serve.Wait()
	})
	return l
}

// open starts to accept connections for the server at host:port.
func (l *Link) open(target string) {
	l.aim(target)
	l.serve.Go(l.accept)
}

// aim sets the target of later connections to the server at host:port; empty refuses them.
func (l *Link) aim(target string) { l.change(func() { l.target = target }) }

// URL returns the address of the server through this link.
func (l *Link) URL() string { return "nats://" + l.Address() }

// Address returns URL as host:port.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Cut closes all connections and refuses new ones.
func (l *Link) Cut() {
	l.change(func() { l.cut = true })
	l.drop()
}

// drop closes all connections.
func (l *Link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.close()
	}
}

// Deafen drops all data from the server, until Cut and Mend. Clients' messages arrive, responses do not.
func (l *Link) Deafen() { l.change(func() { l.ways[fromServer].deaf = true }) }

// Hold holds back the data of both sides, until Mend. Connections stay open and new ones are accepted, but no data
// arrives, as from a frozen server.
func (l *Link) Hold() {
	l.change(func() { l.ways[toServer].held, l.ways[fromServer].held = true, true })
}

// Mend restores the link and delivers the data that was held back.
func (l *Link) Mend() { l.change(func() { l.cut, l.ways = false, [2]way{} }) }

// Delay delays the data of each side, until Mend: that of the clients and that of the server.
func (l *Link) Delay(clients, server time.Duration) {
	l.change(func() { l.ways[toServer].delay, l.ways[fromServer].delay = clients, server })
}

// impede sets how the link treats data in one direction.
func (l *Link) impede(direction int, w way) { l.change(func() { l.ways[direction] = w }) }

func (l *Link) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.connect(client)
	}
}

func (l *Link) connect(client net.Conn) {
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}
	p := &pair{client: client, server: server, gone: make(chan struct{})}
	l.mu.Lock()
	keep := !l.cut && l.target == target
	if keep {
		l.pairs[p] = struct{}{}
	}
	l.mu.Unlock()
	if !keep {
		p.close()
		return
	}
	for direction, ends := range [2][2]net.Conn{{client, server}, {server, client}} {
		flow := make(chan chunk, 1024)
		l.serve.Go(func() { read(ends[0], flow, p.gone) })
		l.serve.Go(func() { l.pass(direction, flow, ends[1], p) })
	}
}

// pair is the two connections of one client.
type pair struct {
	client, server net.Conn
	once           sync.Once
	gone           chan struct{}
}

func (p *pair) close() {
	p.once.Do(func() {
		close(p.gone)
		p.client.Close()
		p.server.Close()
	})
}

// chunk is the data of one read, and its time.
type chunk struct {
	data []byte
	at   time.Time
}

func read(from net.Conn, flow chan<- chunk, gone <-chan struct{}) {
	defer close(flow)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case flow <- chunk{append([]byte(nil), buffer[:n]...), time.Now()}:
			case <-gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass writes the chunks of a connection, each at its due time. The last chunk is the end of the connection.
func (l *Link) pass(direction int, flow <-chan chunk, to net.Conn, p *pair) {
	defer func() {
		p.close()
		l.mu.Lock()
		delete(l.pairs, p)
		l.mu.Unlock()
	}()
	for c := range flow {
		deaf, ok := l.await(direction, c.at, p.gone)
		if !ok {
			return
		}
		if deaf {
			continue
		}
		if _, err := to.Write(c.data); err != nil {
			return
		}
	}
	l.await(direction, time.Now(), p.gone)
}

// await waits until data that was read at the given time may pass. ok is false if the connection ends first.
func (l *Link) await(direction int, at time.Time, gone <-chan struct{}) (deaf, ok bool) {
	for {
		l.mu.Lock()
		w, changed := l.ways[direction], l.changed
		l.mu.Unlock()
		wait := time.Until(at.Add(w.delay))
		if !w.held && wait <= 0 {
			return w.deaf, true
		}
		var due <-chan time.Time
		if !w.held {
			due = time.After(wait)
		}
		select {
		case <-changed:
		case <-due:
		case <-gone:
			return false, false
		}
	}
}
