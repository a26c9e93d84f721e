// Package proxy bounds what producers can take from the NATS server inside a daemon. It listens in the server's place,
// terminates TLS and connects each client to the server in process.
//
// Connections of the operator are copied unchanged. On connections of producers the proxy reads NATS' client protocol
// and applies limits that the server does not have: on message ids, uncommitted batches, subscriptions, and unread
// answers. Each line that it forwards is written anew, so that the server cannot read it otherwise.
package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"loaderd/internal/connlimit"
)

// Options configure a Proxy.
type Options struct {
	// Server connects clients in process. Addresses are theirs, by the number that the server gives them.
	Server    nats.InProcessConnProvider
	Addresses *Addresses
	// Documents is a connection to the account of the documents. The proxy answers gets over it.
	Documents *nats.Conn
	// Secret is what the proxy adds to CONNECT (proxy_sig). The server takes no client without it.
	Secret string
	// Identify returns the role of a client by what it sends in CONNECT.
	Identify func(who *server.ClientOpts, nonce []byte) Role
	// TLS is for clients; nil for none. Timeout bounds the handshake.
	TLS     *tls.Config
	Timeout time.Duration
	// Members is the number of servers in the cluster, which share the limits on ids and batches.
	Members int
	// Log logs in the form of the server's lines.
	Log server.Logger
}

// Addresses are those of a proxy's clients. The server has no addresses of connections in process.
type Addresses struct{ all sync.Map }

// Find returns the address of a client by its number, empty for one of another kind.
func (a *Addresses) Find(client string) string {
	address, _ := a.all.Load(client)
	text, _ := address.(string)
	return text
}

// Role is what a client is.
type Role int

// The roles.
const (
	Unknown  Role = iota // the server refuses it
	Producer             // limits apply
	Operator             // none do
)

// connection is that of a client, a *connlimit.Conn.
type connection interface {
	net.Conn
	Identified() (done func())
	Misuse(cause string)
	SetWriteBuffer(bytes int) error
}

// Proxy accepts clients of a server.
type Proxy struct {
	o        Options
	listener *connlimit.Listener
	streams  streams
	inboxes  inboxes
	batches  *batches
	ids      *rate.Limiter
	gets     *semaphore.Weighted
	parts    *semaphore.Weighted // of documents, that are not stored
	reads    reads
	others   *rate.Limiter // operations of producers that publish no document

	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup
}

// New returns a proxy for a listener, which bounds connections. Clients are identified once their token is known to be
// right. Serve accepts them.
func New(l *connlimit.Listener, o Options) *Proxy {
	members := int64(max(o.Members, 1))
	p := &Proxy{
		o: o, listener: l,
		batches: newBatches(max(StagedBytes/members, StagedBatch)),
		ids:     rate.NewLimiter(rate.Limit(float64((IDBytes-idBurst)/members)/IDWindow.Seconds()), idBurst),
		gets:    semaphore.NewWeighted(getsAtOnce),
		parts:   semaphore.NewWeighted(partsUnstored),
		others:  rate.NewLimiter(othersPerSecond, othersBurst),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Share makes streams known. Producers read them by gets, and publish batches to those with subjects.
func (p *Proxy) Share(all ...Stream) { p.streams.add(all...) }

// Addr is where the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Serve accepts clients until Close.
func (p *Proxy) Serve() {
	const shortest, longest = 10 * time.Millisecond, time.Second
	pause := shortest
	for {
		conn, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // descriptors are scarce
			p.o.Log.Errorf("accept NATS clients: %v", err)
			select {
			case <-p.ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
			continue
		}
		pause = shortest
		p.serving.Go(func() { p.serve(conn.(*connlimit.Conn)) })
	}
}

// Close stops accepting, closes all connections and waits until they have ended.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.cancel()
	p.serving.Wait()
	return err
}

// serve serves one client to its end.
func (p *Proxy) serve(raw connection) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	inner, err := p.o.Server.InProcessConn()
	if err != nil {
		_ = raw.Close()
		return
	}
	unblock := context.AfterFunc(ctx, func() {
		_ = raw.Close()
		_ = inner.Close()
	})
	defer unblock()
	defer raw.Close()   //nolint:errcheck // it may be closed
	defer inner.Close() //nolint:errcheck // it may be closed
	s, err := p.shake(ctx, raw, inner)
	if s != nil {
		defer p.o.Addresses.all.Delete(s.id)
	}
	if err != nil {
		return
	}
	if s.role == Unknown {
		_, _ = io.CopyN(s.client, s.fromServ, controlLine) // why the server refuses it
		return
	}
	defer raw.Identified()()
	switch s.role {
	case Producer:
		newProducer(ctx, p, raw, s).run()
	case Operator:
		splice(s)
	}
}

// session is a client whose CONNECT was forwarded.
type session struct {
	client   net.Conn      // above TLS
	fromUser *bufio.Reader // of client
	server   net.Conn
	fromServ *bufio.Reader // of server
	role     Role
	id       string // the server's number of it
}

const (
	// controlLine bounds a line of a client, as the server does.
	controlLine = server.MAX_CONTROL_LINE_SIZE
	// infoLine bounds the server's description of itself, which names the servers of a cluster.
	infoLine = 1 << 20
	// connectTimeout bounds the wait for CONNECT.
	connectTimeout = 5 * time.Second
)

var (
	errProtocol = errors.New("unknown protocol operation")
	errConnect  = errors.New("authorization violation")
	errTimeout  = errors.New("authentication timeout")
)

// shake introduces client and server to each other, up to CONNECT. With an error it may return a session, too.
func (p *Proxy) shake(ctx context.Context, raw, inner net.Conn) (*session, error) {
	s := &session{client: raw, server: inner, fromServ: bufio.NewReader(inner)}
	limit := time.Now().Add(connectTimeout)
	if p.o.TLS != nil {
		limit = limit.Add(p.o.Timeout)
	}
	if err := errors.Join(raw.SetDeadline(limit), inner.SetDeadline(limit)); err != nil {
		return nil, err
	}
	line, err := readLine(s.fromServ, nil, infoLine)
	if err != nil {
		return nil, err
	}
	var info struct {
		Nonce string `json:"nonce"`
		ID    uint64 `json:"client_id"`
	}
	text, found := bytes.CutPrefix(line, []byte("INFO "))
	if !found || json.Unmarshal(text, &info) != nil {
		return nil, errProtocol
	}
	s.id = strconv.FormatUint(info.ID, 10)
	p.o.Addresses.all.Store(s.id, raw.RemoteAddr().String())
	if _, err := raw.Write(p.info(line)); err != nil {
		return s, err
	}
	if p.o.TLS != nil {
		secure := tls.Server(raw, p.o.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			p.o.Log.Errorf(logged(raw)+"TLS handshake error: %v", err)
			return s, err
		}
		s.client = secure
	}
	s.fromUser = bufio.NewReaderSize(s.client, controlLine)
	if err := p.connect(s, []byte(info.Nonce)); err != nil {
		_, _ = fmt.Fprintf(s.client, "-ERR '%v'\r\n", err)
		return s, err
	}
	if s.role == Unknown {
		return s, nil
	}
	return s, errors.Join(raw.SetDeadline(time.Time{}), inner.SetDeadline(time.Time{}))
}

// connect forwards a client's CONNECT.
func (p *Proxy) connect(s *session, nonce []byte) error {
	for {
		line, err := readLine(s.fromUser, nil, controlLine)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errTimeout
		}
		if err != nil {
			return errConnect
		}
		verb, rest, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		switch string(bytes.ToUpper(verb)) {
		case "PING":
			if _, err := io.WriteString(s.client, "PONG\r\n"); err != nil {
				return err
			}
			continue
		case "CONNECT":
		default:
			return errConnect
		}
		who := server.ClientOpts{Verbose: true, Pedantic: true, Echo: true} // the server's defaults
		if json.Unmarshal(rest, &who) != nil {
			return errConnect
		}
		if s.role = p.o.Identify(&who, nonce); s.role == Producer {
			who.Echo = true // the proxy publishes answers over the producer's own connection
		}
		who.ProxySig = p.o.Secret
		text, err := json.Marshal(who)
		if err != nil {
			return errConnect
		}
		_, err = s.server.Write(fmt.Appendf(nil, "CONNECT %s\r\n", text))
		return err
	}
}

// info is a server's description of itself as clients get it: where the proxy has a certificate, it requires TLS.
func (p *Proxy) info(line []byte) []byte {
	text, found := bytes.CutPrefix(line, []byte("INFO {"))
	if p.o.TLS == nil || !found {
		return line
	}
	return fmt.Appendf(nil, `INFO {"tls_required":true,%s`, text)
}

// logged is how a line of the server begins that is about a client.
func logged(client net.Conn) string {
	return strings.ReplaceAll(client.RemoteAddr().String(), "%", "%%") + " - cid:0 - "
}

// splice copies between client and server until one of them ends.
func splice(s *session) {
	var both sync.WaitGroup
	both.Go(func() {
		pipe(s.client, s.fromServ, s.server)
		_ = s.client.Close()
	})
	pipe(s.server, s.fromUser, s.client)
	_ = s.server.Close()
	both.Wait()
}

// copyBytes is how much is copied at once.
const copyBytes = 64 << 10

// pipe copies what a reader has buffered, then what follows from its connection.
func pipe(to io.Writer, buffered *bufio.Reader, from io.Reader) {
	first, _ := buffered.Peek(buffered.Buffered())
	if _, err := to.Write(first); err != nil {
		return
	}
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, copyBytes))
}
