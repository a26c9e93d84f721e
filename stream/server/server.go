// Package server is a NATS server with JetStream inside this process: its data folder, which one process holds at a
// time, its start and stop, and whether it can still write.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"loaderd/internal/connlimit"
	"loaderd/stream/proxy"
)

// stopLimit bounds the embedded server's shutdown: it only has to flush what is already synced.
const stopLimit = 20 * time.Second

// Options say where a server keeps its data and who reaches it.
type Options struct {
	Dir        string // data folder
	Listen     string // host:port for clients; port 0 takes a free one
	MaxPayload int    // bytes of one message, headers included
	Private    bool   // it takes no port: only this process reaches it. A member of a cluster cannot be
	Cluster    Cluster
	Producers  Producers
	// Cert and Key are PEM files of what is shown to clients, and to the other members of a cluster, who show theirs, of
	// authorities in CA. Without them there is no TLS.
	Cert, Key, CA string
}

// Server is a NATS server inside this process.
//
// Every write is synced before it is acknowledged (SyncAlways): with any other setting a power loss takes acknowledged
// messages along.
type Server struct {
	server  *server.Server
	folder  *folder
	users   *users
	certs   certificates
	proxy   *proxy.Proxy // nil for a private server
	inside  *nats.Conn   // of the proxy
	url     string
	started chan struct{} // closed when the server has done with starting, well or not
	health  health
}

// Start starts a server and waits until it takes clients. Without the data folder to itself it returns ErrFolderInUse.
func Start(ctx context.Context, o Options, log *slog.Logger) (_ *Server, err error) {
	folder, err := holdFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, folder.release())
		}
	}()
	if o.Private && o.Cluster.Name != "" {
		return nil, fmt.Errorf("open data folder %s (stream.dir) alone: one member of cluster %s cannot answer for it: "+
			"start the members, or name those that run (stream.url)",
			o.Dir, o.Cluster.Name)
	}
	name, err := o.Cluster.serverName()
	if err != nil {
		return nil, err
	}
	member, err := folder.check(mark{Cluster: o.Cluster.Name, Server: name})
	if err != nil {
		return nil, err
	}
	certs, err := openCertificates(o)
	if err != nil {
		return nil, err
	}
	if o.Listen, err = probeListens(ctx, o); err != nil {
		return nil, err
	}
	// Every check is above: a refused start leaves the folder as it was, except for its lock file.
	secret, err := o.Cluster.secret(o.Dir, log)
	if err != nil {
		return nil, err
	}
	opts, err := serverOptions(o, member.Server, secret, certs)
	if err != nil {
		return nil, err
	}
	users, err := openUsers(o.Dir, secret)
	if err != nil {
		return nil, err
	}
	opts.CustomClientAuthentication = users
	if err := writeMark(folder.markName(), member); err != nil {
		return nil, err
	}
	if err := completeSettings(o.Dir, log); err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("make embedded NATS server: %w", err)
	}
	sink := &serverLog{log: log.With("part", "nats-server"), fatal: make(chan error, 1), clients: &proxy.Addresses{}}
	srv.SetLoggerV2(sink, log.Enabled(ctx, slog.LevelDebug-1), false, false)
	users.server = srv
	if err := users.share(o.Producers); err != nil {
		return nil, err
	}
	s := &Server{server: srv, folder: folder, users: users, certs: certs, started: make(chan struct{})}
	s.health.check = s.checkHealth
	if err := s.start(ctx, sink.fatal); err != nil {
		return nil, errors.Join(fmt.Errorf("start embedded NATS server in %s on %s: %w", o.Dir, o.Listen, err), s.shutdown())
	}
	if o.Private {
		return s, nil
	}
	if err := s.serveClients(ctx, o, sink, log); err != nil {
		return nil, errors.Join(err, s.shutdown())
	}
	return s, nil
}

// serveClients listens for clients and announces the address.
func (s *Server) serveClients(ctx context.Context, o Options, sink *serverLog, log *slog.Logger) error {
	if err := s.listen(ctx, o, sink); err != nil {
		return err
	}
	s.url = clientURL(s.proxy.Addr())
	if err := s.folder.announce(s.url); err != nil {
		return err
	}
	go s.proxy.Serve() // after the address is announced: clients that know it find their token by it
	if a, ok := s.proxy.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && s.certs.clients.Config() == nil {
		log.Warn(
			"tokens and documents travel in the clear: the server inside the daemon has no certificate (stream.tls.cert)",
			"stream.listen", a.String())
	}
	return nil
}

// listen makes the proxy that clients connect to. It accepts them once it serves.
func (s *Server) listen(ctx context.Context, o Options, log *serverLog) (err error) {
	user, password := s.Inside(Documents)
	s.inside, err = nats.Connect("", nats.InProcessServer(s), nats.UserInfo(user, password), nats.Name("loaderd proxy"),
		nats.MaxReconnects(-1), nats.SyncQueueLen(proxy.GetMessages+1)) // one for the status behind them
	if err != nil {
		return fmt.Errorf("connect the proxy to the embedded NATS server: %w", err)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen for NATS clients on %s (stream.listen): %w", o.Listen, err)
	}
	bounded := connlimit.New(l, connlimit.Config{
		Max: min(MaxConnections, connlimit.Descriptors()/descriptorPart), MaxPerHost: MaxConnectionsPerHost,
		IdentifyWithin: (tlsTimeout + authTimeout) * time.Second, Log: log.log,
	})
	s.proxy = proxy.New(bounded, proxy.Options{
		Server: s, Addresses: log.clients, Documents: s.inside, Secret: s.users.proxy, Identify: s.users.identify,
		TLS: s.certs.clients.Config(), Timeout: tlsTimeout * time.Second, Members: len(o.Cluster.Peers), Log: log,
	})
	s.proxy.Share(o.Producers.Reads...)
	return nil
}

func serverOptions(o Options, name, secret string, certs certificates) (*server.Options, error) {
	host, port, err := hostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("read listen address (stream.listen): %w", err)
	}
	cluster, routes, err := o.Cluster.options(secret)
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		ServerName: name,
		Cluster:    cluster,
		Routes:     routes,
		NoSigs:     true,
		Host:       host,
		Port:       port,
		// Clients connect to the proxy.
		DontListen:  true,
		AuthTimeout: tlsTimeout + authTimeout,
		// Clients sign the nonce with their token, so that a process which listens here while the daemon is down gets none.
		AlwaysEnableNonce: true,
		// A member that is away is tried once a second, and is a line in the log once a minute.
		ReconnectErrorReports: 60,
		MaxPayload:            int32(o.MaxPayload),
		MaxPending:            max(server.MAX_PENDING_SIZE, 4*int64(o.MaxPayload)),
		JetStream:             true,
		StoreDir:              o.Dir,
		SyncAlways:            true,
		// The server would otherwise measure the disk at every start and refuse streams whose bounds no longer fit. Bounds
		// are set against the disk when a stream is created.
		JetStreamMaxStore:  math.MaxInt64 / 4,
		JetStreamMaxMemory: 64 << 20, // ordered consumers only; every stream of ours is on disk
		// Producers cannot take all places for uncommitted batches.
		JetStreamLimits: server.JSLimitOpts{MaxBatchInflightPerStream: proxy.StagedBatches*MaxProducers + operatorBatches},
	}
	if o.Cluster.Name != "" {
		// The server tells the other members, and their clients, where its clients connect. It does so only where it
		// listens; it takes no client there, who lacks the secret of the proxy.
		opts.DontListen, opts.Host, opts.Port, opts.ClientAdvertise = false, "127.0.0.1", server.RANDOM_PORT,
			advertised(o.Listen)
	}
	certs.use(opts)
	return opts, accounts(opts)
}

const (
	// authTimeout is how long a client has for CONNECT, in seconds, apart from a TLS handshake. The proxy gives it less.
	authTimeout = 6
	// MaxConnections and MaxConnectionsPerHost bound the connections of clients, of all and of one host. At a bound the
	// oldest one without a right token is closed for a new one.
	MaxConnections        = 1024
	MaxConnectionsPerHost = 512
	// descriptorPart is the part of the process's descriptors that clients take at most: one in so many.
	descriptorPart = 8
	// operatorBatches are the uncommitted batches of a stream that others than producers may have.
	operatorBatches = 128
)

// advertised is where clients on other machines reach an address.
func advertised(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host != "" && !ip.IsUnspecified() {
		return address
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return address
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return net.JoinHostPort(n.IP.String(), port)
		}
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// hostPort reads an address to listen on, as the server's options want it.
func hostPort(address string) (string, int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", 0, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// URL is where any NATS client reaches the server; empty for a private one.
func (s *Server) URL() string { return s.url }

// Reading notes that readers wait for documents, until done is called. Producers yield to them.
func (s *Server) Reading() (done func()) {
	if s.proxy == nil {
		return func() {}
	}
	return s.proxy.Reading()
}

// InProcessConn connects a client inside this process, past the network.
func (s *Server) InProcessConn() (net.Conn, error) { return s.server.InProcessConn() }

// probeListens finds out that an address cannot be had before anything is started, when the cause is still at hand. It
// returns the address for clients: the members of a cluster are told its port, which must be known before the start.
func probeListens(ctx context.Context, o Options) (string, error) {
	if o.Private {
		return o.Listen, nil
	}
	address, err := probeListen(ctx, o.Listen, "NATS clients", "stream.listen")
	if err != nil || o.Cluster.Name == "" {
		return o.Listen, err
	}
	_, err = probeListen(ctx, o.Cluster.Listen, "routes of the cluster", "stream.cluster.listen")
	return address, err
}

func probeListen(ctx context.Context, address, whose, key string) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "", fmt.Errorf("listen for %s on %s: %w: another program has this port; choose another with %s%s", whose,
			address, err, key, freePort(key))
	}
	if err != nil {
		return "", fmt.Errorf("listen for %s on %s (%s): %w", whose, address, key, err)
	}
	return l.Addr().String(), l.Close()
}

// freePort is what port 0 does where it does it: other members must know where routes go.
func freePort(key string) string {
	if key == "stream.listen" {
		return " (port 0 takes a free one)"
	}
	return ""
}

// start waits until the server takes clients. Reading back a large store takes a while: only ctx bounds it.
func (s *Server) start(ctx context.Context, fatal <-chan error) error {
	go func() {
		defer close(s.started)
		s.server.Start()
	}()
	select {
	case err := <-fatal:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.started:
	}
	select {
	case err := <-fatal:
		return err
	default:
	}
	if !s.server.ReadyForConnections(5 * time.Second) {
		return errors.New("it does not listen for clients")
	}
	if !s.server.JetStreamEnabled() {
		return errors.New("JetStream did not start; the log says why")
	}
	return nil
}

// Health is nil while every stream can be written. It returns within healthWait, and the same to all callers within
// healthFor: a client that got an error finds it as the cause of what fails in another account.
func (s *Server) Health() error { return s.health.recent() }

// CheckHealth asks the server whether every stream can be written now. It returns within twice hungAfter.
func (s *Server) CheckHealth() error { return s.health.fresh() }

// checkHealth blocks for as long as a write of the server: its health check waits for the streams' locks.
func (s *Server) checkHealth() error {
	h := s.server.Healthz(&server.HealthzOptions{})
	switch {
	case h.Error == "":
		return nil
	case strings.Contains(h.Error, writeError):
		free, err := s.DiskFree()
		if err != nil {
			free = -1
		}
		full := outOfSpace(h.Error) || free >= 0 && free < leastSpace
		return &StorageError{Path: s.folder.path, Free: free, Full: full, Message: h.Error}
	case s.server.JetStreamIsClustered():
		return fmt.Errorf("embedded NATS server in %s: %s: it may be catching up with the other members, or too few of "+
			"them may run or reach each other "+
			"(stream.cluster.peers); else look for a full disk or a failing one", s.folder.path, h.Error)
	}
	return fmt.Errorf("embedded NATS server in %s: %s: look for a full disk or a failing one, then restart the daemon",
		s.folder.path, h.Error)
}

func (s *Server) shutdown() error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.inside != nil {
			s.inside.Close()
		}
		if s.proxy != nil {
			_ = s.proxy.Close() // the address is given back
		}
		<-s.started // a server that is shut down while it starts goes on starting, and writing
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("stop embedded NATS server in %s: not done after %v", s.folder.path, stopLimit)
	}
}

// Stop ends the server, then gives the folder back: never the other way round.
func (s *Server) Stop() error {
	if err := s.shutdown(); err != nil {
		return err // the folder stays locked until the process ends: the server may still write
	}
	return s.folder.release()
}

// DiskFree is the space that is left for the store, in bytes.
func (s *Server) DiskFree() (int64, error) {
	free, err := diskFree(s.folder.path)
	if err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", filepath.Clean(s.folder.path), err)
	}
	return free, nil
}

// clientURL is where clients of this machine reach a listener, for one on all interfaces too.
func clientURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "nats://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "nats", Host: net.JoinHostPort(host, port)}
	return u.String()
}
