// Package proxy bounds the resources of the NATS server inside a daemon that producers can use. It listens in place
// of the server, terminates TLS and connects each client to the server in process.
//
// Connections of the operator are copied unchanged. On connections of producers the proxy parses NATS' client
// protocol and applies limits that the server does not have: on message ids, uncommitted batches,
// subscriptions, and unread responses. It writes each line that it forwards in canonical form, so that the
// server cannot parse it differently.
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
	// Server connects clients in process. Addresses maps the server's client numbers to the addresses of these clients.
	Server    nats.InProcessConnProvider
	Addresses *Addresses
	// Documents is a connection to the documents' account, over which the proxy executes gets.
	Documents *nats.Conn
	// Secret is added by the proxy to CONNECT (proxy_sig). The server refuses clients without it.
	Secret string
	// Identify returns the role of a client from its CONNECT and the nonce.
	Identify func(who *server.ClientOpts, nonce []byte) Role
	// TLS is for clients; nil for no TLS. Timeout bounds the handshake.
	TLS     *tls.Config
	Timeout time.Duration
	// Members is the number of servers in the cluster, which share the limits on ids and batches.
	Members int
	// Log receives log lines in the server's form.
	Log server.Logger
}

// Addresses are the addresses of a proxy's clients. The server has no addresses of connections in process.
type Addresses struct{ all sync.Map }

// Find returns the address of a client by its number, or an empty string for a client that is not of the proxy.
func (a *Addresses) Find(client string) string {
	address, _ := a.all.Load(client)
	text, _ := address.(string)
	return text
}

// Role is the role of a client.
type Role int

// The roles.
const (
	Unknown  Role = iota // the server refuses it
	Producer             // limits apply
	Operator             // no limits apply
)

// connection is a client's connection, a *connlimit.Conn.
type connection interface {
	net.Conn
	BeginIdentified() (done func())
	CloseForMisuse(cause string)
	SetWriteBuffer(bytes int) error
}

// Proxy accepts clients of a server.
type Proxy struct {
	options      Options
	listener     *connlimit.Listener
	streams      streams
	inboxes      inboxes
	batches      *batches
	idLimiter    *rate.Limiter
	getLimiter   *semaphore.Weighted
	partLimiter  *semaphore.Weighted // parts of documents that are not stored yet
	pacer        pacer
	otherLimiter *rate.Limiter // operations of producers other than publishing documents

	ctx        context.Context
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
}

// New returns a proxy for a listener, which bounds connections. A client counts as identified after its token is
// verified. Serve accepts clients.
func New(l *connlimit.Listener, o Options) *Proxy {
	members := int64(max(o.Members, 1))
	p := &Proxy{
		options: o, listener: l,
		batches:      newBatches(max(StagedBytes/members, StagedBatch)),
		idLimiter:    rate.NewLimiter(rate.Limit(float64((IDBytes-idBurst)/members)/IDWindow.Seconds()), idBurst),
		getLimiter:   semaphore.NewWeighted(maxConcurrentGets),
		partLimiter:  semaphore.NewWeighted(maxUnstoredParts),
		otherLimiter: rate.NewLimiter(otherOpsPerSecond, otherOpsBurst),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// RegisterStreams registers streams. Producers read them by gets, and publish batches to those with subjects.
func (p *Proxy) RegisterStreams(all ...Stream) { p.streams.add(all...) }

// Addr returns the address that the proxy listens on.
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
		case err != nil: // file descriptors are scarce
			p.options.Log.Errorf("accept NATS clients: %v", err)
			select {
			case <-p.ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
			continue
		}
		pause = shortest
		p.goroutines.Go(func() { p.serve(conn.(*connlimit.Conn)) })
	}
}

// Close stops accepting, closes all connections and waits until they have ended.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.cancel()
	p.goroutines.Wait()
	return err
}

// serve serves one client until its connection ends.
func (p *Proxy) serve(raw connection) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	inner, err := p.options.Server.InProcessConn()
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
	s, err := p.handshake(ctx, raw, inner)
	if s != nil {
		defer p.options.Addresses.all.Delete(s.id)
	}
	if err != nil {
		return
	}
	if s.role == Unknown {
		_, _ = io.CopyN(s.client, s.serverReader, controlLine) // the server's reason for the refusal
		return
	}
	defer raw.BeginIdentified()()
	switch s.role {
	case Producer:
		newProducer(ctx, p, raw, s).run()
	case Operator:
		copyBoth(s)
	}
}

// session is a client whose CONNECT has been forwarded.
type session struct {
	client       net.Conn      // above TLS
	clientReader *bufio.Reader // of client
	server       net.Conn
	serverReader *bufio.Reader // of server
	role         Role
	id           string // the server's number of the client
}

const (
	// controlLine bounds a line of a client, as the server does.
	controlLine = server.MAX_CONTROL_LINE_SIZE
	// infoLine bounds the server's INFO line, which names the servers of a cluster.
	infoLine = 1 << 20
	// connectTimeout bounds the wait for CONNECT.
	connectTimeout = 5 * time.Second
)

var (
	errProtocol = errors.New("unknown protocol operation")
	errConnect  = errors.New("authorization violation")
	errTimeout  = errors.New("authentication timeout")
)

// handshake relays the handshake between client and server, up to CONNECT. It may return a session together with an
// error.
func (p *Proxy) handshake(ctx context.Context, raw, inner net.Conn) (*session, error) {
	s := &session{client: raw, server: inner, serverReader: bufio.NewReader(inner)}
	limit := time.Now().Add(connectTimeout)
	if p.options.TLS != nil {
		limit = limit.Add(p.options.Timeout)
	}
	if err := errors.Join(raw.SetDeadline(limit), inner.SetDeadline(limit)); err != nil {
		return nil, err
	}
	line, err := readLine(s.serverReader, nil, infoLine)
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
	p.options.Addresses.all.Store(s.id, raw.RemoteAddr().String())
	if _, err := raw.Write(p.clientInfo(line)); err != nil {
		return s, err
	}
	if p.options.TLS != nil {
		secure := tls.Server(raw, p.options.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			p.options.Log.Errorf(logPrefix(raw)+"TLS handshake error: %v", err)
			return s, err
		}
		s.client = secure
	}
	s.clientReader = bufio.NewReaderSize(s.client, controlLine)
	if err := p.forwardConnect(s, []byte(info.Nonce)); err != nil {
		_, _ = fmt.Fprintf(s.client, "-ERR '%v'\r\n", err)
		return s, err
	}
	if s.role == Unknown {
		return s, nil
	}
	return s, errors.Join(raw.SetDeadline(time.Time{}), inner.SetDeadline(time.Time{}))
}

// forwardConnect forwards a client's CONNECT.
func (p *Proxy) forwardConnect(s *session, nonce []byte) error {
	for {
		line, err := readLine(s.clientReader, nil, controlLine)
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
		if s.role = p.options.Identify(&who, nonce); s.role == Producer {
			who.Echo = true // the proxy publishes responses over the producer's own connection
		}
		who.ProxySig = p.options.Secret
		text, err := json.Marshal(who)
		if err != nil {
			return errConnect
		}
		_, err = s.server.Write(fmt.Appendf(nil, "CONNECT %s\r\n", text))
		return err
	}
}

// clientInfo returns the server's INFO line for clients. If the proxy has a certificate, the line requires TLS.
func (p *Proxy) clientInfo(line []byte) []byte {
	text, found := bytes.CutPrefix(line, []byte("INFO {"))
	if p.options.TLS == nil || !found {
		return line
	}
	return fmt.Appendf(nil, `INFO {"tls_required":true,%s`, text)
}

// logPrefix returns the prefix of the server's log lines about a client.
func logPrefix(client net.Conn) string {
	return strings.ReplaceAll(client.RemoteAddr().String(), "%", "%%") + " - cid:0 - "
}

// copyBoth copies between client and server until one of them ends.
func copyBoth(s *session) {
	var both sync.WaitGroup
	both.Go(func() {
		copyBuffered(s.client, s.serverReader, s.server)
		_ = s.client.Close()
	})
	copyBuffered(s.server, s.clientReader, s.client)
	_ = s.server.Close()
	both.Wait()
}

// copyBytes is the size of the copy buffer.
const copyBytes = 64 << 10

// copyBuffered copies the data that a reader has buffered, then the data of its connection.
func copyBuffered(to io.Writer, buffered *bufio.Reader, from io.Reader) {
	first, _ := buffered.Peek(buffered.Buffered())
	if _, err := to.Write(first); err != nil {
		return
	}
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, copyBytes))
}
