package natstest

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Link is a TCP connection to a server that can be cut, held up and mended. It ends with the test.
type Link struct {
	listener net.Listener
	serve    sync.WaitGroup

	mu      sync.Mutex
	target  string // host:port; empty refuses connections
	cut     bool
	ways    [2]way
	changed chan struct{} // closed and made anew when the state above changes
	pairs   map[*pair]struct{}
}

// The two ways of a link.
const (
	toServer = iota
	fromServer
)

// way is what happens to bytes that pass in one direction.
type way struct {
	deaf  bool          // they are lost
	held  bool          // they wait until the link is mended
	delay time.Duration // they arrive that much later
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

// listenLink makes a link whose connections wait until open says where they go.
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

// open starts to take connections for the server at host:port.
func (l *Link) open(target string) {
	l.aim(target)
	l.serve.Go(l.accept)
}

// aim leads connections from now on to the server at host:port; none takes them where it is empty.
func (l *Link) aim(target string) { l.change(func() { l.target = target }) }

// URL is where clients reach the server by this link.
func (l *Link) URL() string { return "nats://" + l.Address() }

// Address is URL as host:port.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Cut breaks all connections and refuses new ones.
func (l *Link) Cut() {
	l.change(func() { l.cut = true })
	l.drop()
}

// drop breaks all connections.
func (l *Link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.close()
	}
}

// Deafen loses whatever the server says from now on, until Cut and Mend: clients' messages arrive, answers do not.
func (l *Link) Deafen() { l.change(func() { l.ways[fromServer].deaf = true }) }

// Hold keeps what both sides say back, until Mend: connections stay, new ones too, and nobody hears anything, as from a
// frozen server.
func (l *Link) Hold() {
	l.change(func() { l.ways[toServer].held, l.ways[fromServer].held = true, true })
}

// Mend lets connections through again, and what was held back.
func (l *Link) Mend() { l.change(func() { l.cut, l.ways = false, [2]way{} }) }

// Delay delivers what each side says that much later, until Mend: what clients say, and what the server says.
func (l *Link) Delay(clients, server time.Duration) {
	l.change(func() { l.ways[toServer].delay, l.ways[fromServer].delay = clients, server })
}

// impede sets what happens to bytes of one direction.
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

// pair are the two connections of one client.
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

// chunk is what was read at once, and when.
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

// pass writes what was read, each chunk when its time has come. The end of a connection is the last chunk.
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

// await waits until what was read at a time may pass. It is not ok when the connection is gone before.
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
