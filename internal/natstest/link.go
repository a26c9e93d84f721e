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

	mu          sync.Mutex
	target      string // host:port; empty refuses connections
	cut         bool
	impairments [2]impairment
	changed     chan struct{} // closed and replaced when the state above changes
	pairs       map[*connPair]struct{}
}

// The two directions of a link.
const (
	toServer = iota
	fromServer
)

// impairment is how a link treats data in one direction.
type impairment struct {
	discard bool          // data is lost
	hold    bool          // data waits until Restore
	delay   time.Duration // data is delayed by this duration
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
	l := &Link{listener: listener, changed: make(chan struct{}), pairs: map[*connPair]struct{}{}}
	t.Cleanup(func() {
		listener.Close()
		l.Cut()
		l.serve.Wait()
	})
	return l
}

// open starts to accept connections for the server at host:port.
func (l *Link) open(target string) {
	l.setTarget(target)
	l.serve.Go(l.accept)
}

// setTarget sets the target of later connections to the server at host:port; empty refuses them.
func (l *Link) setTarget(target string) { l.update(func() { l.target = target }) }

// URL returns the address of the server through this link.
func (l *Link) URL() string { return "nats://" + l.Address() }

// Address returns URL as host:port.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Cut closes all connections and refuses new ones.
func (l *Link) Cut() {
	l.update(func() { l.cut = true })
	l.closeConnections()
}

// closeConnections closes all connections.
func (l *Link) closeConnections() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.close()
	}
}

// DropResponses drops all data from the server, until Cut and Restore. Clients' messages arrive, responses do not.
func (l *Link) DropResponses() { l.update(func() { l.impairments[fromServer].discard = true }) }

// Hold holds back the data of both sides, until Restore. Connections stay open and new ones are accepted, but no data
// arrives, as from a frozen server.
func (l *Link) Hold() {
	l.update(func() { l.impairments[toServer].hold, l.impairments[fromServer].hold = true, true })
}

// Restore restores the link and delivers the data that was held back.
func (l *Link) Restore() { l.update(func() { l.cut, l.impairments = false, [2]impairment{} }) }

// Delay delays the data of each side, until Restore: that of the clients and that of the server.
func (l *Link) Delay(clients, server time.Duration) {
	l.update(func() { l.impairments[toServer].delay, l.impairments[fromServer].delay = clients, server })
}

// setImpairment sets how the link treats data in one direction.
func (l *Link) setImpairment(direction int, w impairment) {
	l.update(func() { l.impairments[direction] = w })
}

func (l *Link) update(f func()) {
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
	p := &connPair{client: client, server: server, closed: make(chan struct{})}
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
		l.serve.Go(func() { readChunks(ends[0], flow, p.closed) })
		l.serve.Go(func() { l.forwardChunks(direction, flow, ends[1], p) })
	}
}

// connPair is the two connections of one client.
type connPair struct {
	client, server net.Conn
	once           sync.Once
	closed         chan struct{}
}

func (p *connPair) close() {
	p.once.Do(func() {
		close(p.closed)
		p.client.Close()
		p.server.Close()
	})
}

// chunk is the data of one read, and its time.
type chunk struct {
	data   []byte
	readAt time.Time
}

func readChunks(from net.Conn, flow chan<- chunk, gone <-chan struct{}) {
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

// forwardChunks writes the chunks of a connection, each at its due time. The last chunk is the end of the connection.
func (l *Link) forwardChunks(direction int, flow <-chan chunk, to net.Conn, p *connPair) {
	defer func() {
		p.close()
		l.mu.Lock()
		delete(l.pairs, p)
		l.mu.Unlock()
	}()
	for c := range flow {
		deaf, ok := l.awaitDelivery(direction, c.readAt, p.closed)
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
	l.awaitDelivery(direction, time.Now(), p.closed)
}

// awaitDelivery waits until data that was read at the given time may pass. ok is false if the connection ends first.
func (l *Link) awaitDelivery(direction int, at time.Time, gone <-chan struct{}) (deaf, ok bool) {
	for {
		l.mu.Lock()
		w, changed := l.impairments[direction], l.changed
		l.mu.Unlock()
		wait := time.Until(at.Add(w.delay))
		if !w.hold && wait <= 0 {
			return w.discard, true
		}
		var due <-chan time.Time
		if !w.hold {
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
