// Package server runs a NATS server with JetStream inside this process. It locks the data folder, which one process
// holds at a time, starts and stops the server, and reports whether it can still write.
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
	"loaderd/internal/diskspace"
	"loaderd/stream/proxy"
)

// stopTimeout bounds the embedded server's shutdown, which only has to flush data that is already synced.
const stopTimeout = 20 * time.Second

// Options configure a server's data folder, listeners and cluster.
type Options struct {
	Dir        string // data folder
	Listen     string // host:port for clients; port 0 selects a free one
	MaxPayload int    // bytes of one message, headers included
	Private    bool   // no listener, only this process can connect; not permitted for a member of a cluster
	Cluster    Cluster
	Producers  Producers
	// Cert and Key are PEM files of the server's certificate for clients and for the other members of a cluster. CA
	// holds the authorities of those members' certificates. Without them the server does not use TLS.
	Cert, Key, CA string
}

// Server is a NATS server inside this process.
//
// Every write is synced before it is acknowledged (SyncAlways). With any other setting a power failure loses
// acknowledged messages.
type Server struct {
	server    *server.Server
	folder    *dataFolder
	users     *users
	certs     certificates
	proxy     *proxy.Proxy // nil for a private server
	proxyConn *nats.Conn   // the proxy's connection
	url       string
	started   chan struct{} // closed when the server's start is complete, successful or not
	health    health
}

// Start starts a server and waits until it accepts clients. If another process holds the data folder, it
// returns ErrFolderInUse.
func Start(ctx context.Context, o Options, log *slog.Logger) (_ *Server, err error) {
	folder, err := lockFolder(o.Dir)
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
	member, err := folder.checkIdentity(folderIdentity{Cluster: o.Cluster.Name, Server: name})
	if err != nil {
		return nil, err
	}
	certs, err := openCertificates(o)
	if err != nil {
		return nil, err
	}
	listener, err := probeListeners(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer closeOnError(listener, &err)
	// Every check is above, so that a refused start leaves the folder unchanged, except for its lock file.
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
	if err := writeIdentity(folder.identityFile(), member); err != nil {
		return nil, err
	}
	if err := completeChecksums(o.Dir, log); err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("make embedded NATS server: %w", err)
	}
	sink := &serverLog{log: log.With("part", "nats-server"), fatal: make(chan error, 1), clients: &proxy.Addresses{}}
	srv.SetLoggerV2(sink, log.Enabled(ctx, slog.LevelDebug-1), false, false)
	users.server = srv
	if err := users.exportRequests(o.Producers); err != nil {
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
	if err := s.serveClients(ctx, listener, o, sink, log); err != nil {
		return nil, errors.Join(err, s.shutdown())
	}
	return s, nil
}

// serveClients accepts clients, through l unless it is nil, and announces the address.
func (s *Server) serveClients(ctx context.Context, l net.Listener, o Options, sink *serverLog,
	log *slog.Logger) (err error) {
	if l == nil {
		if l, err = listen(ctx, o.Listen, "NATS clients", "stream.listen"); err != nil {
			return err
		}
	}
	if err := s.openProxy(l, o, sink); err != nil {
		return err
	}
	s.url = clientURL(s.proxy.Addr())
	if err := s.folder.announce(s.url); err != nil {
		return err
	}
	go s.proxy.Serve() // after the announcement: clients look up their token by the announced address
	if a, ok := s.proxy.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && s.certs.clients.Config() == nil {
		log.Warn(
			"tokens and documents are sent unencrypted: the server inside the daemon has no certificate (stream.tls.cert)",
			"stream.listen", a.String())
	}
	return nil
}

// openProxy creates the proxy that clients connect to. The proxy accepts connections only after Serve is called.
func (s *Server) openProxy(l net.Listener, o Options, log *serverLog) (err error) {
	user, password := s.ProcessLogin(Documents)
	s.proxyConn, err = nats.Connect("", nats.InProcessServer(s), nats.UserInfo(user, password), nats.Name("loaderd proxy"),
		nats.MaxReconnects(-1), nats.SyncQueueLen(proxy.GetMessages+1)) // plus one for the status after the messages
	if err != nil {
		return fmt.Errorf("connect the proxy to the embedded NATS server: %w", err)
	}
	bounded := connlimit.New(l, connlimit.Config{
		Max: min(MaxConnections, connlimit.Descriptors()/descriptorPart), MaxPerHost: MaxConnectionsPerHost,
		IdentifyTimeout: (tlsTimeout + authTimeout) * time.Second, Log: log.log,
	})
	s.proxy = proxy.New(bounded, proxy.Options{
		Server: s, Addresses: log.clients, Documents: s.proxyConn, Secret: s.users.proxySecret, Identify: s.users.identify,
		TLS: s.certs.clients.Config(), Timeout: tlsTimeout * time.Second, Members: len(o.Cluster.Peers), Log: log,
	})
	s.proxy.RegisterStreams(o.Producers.Reads...)
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
		// Clients sign the nonce with their token. A process that listens here while the daemon is down gets no token.
		AlwaysEnableNonce: true,
		// A missing member is retried once per second and logged once per minute.
		ReconnectErrorReports: 60,
		MaxPayload:            int32(o.MaxPayload),
		MaxPending:            max(server.MAX_PENDING_SIZE, 4*int64(o.MaxPayload)),
		JetStream:             true,
		StoreDir:              o.Dir,
		SyncAlways:            true,
		// Otherwise the server would measure the disk at every start and refuse streams whose bounds no longer fit. Bounds
		// are checked against the disk when a stream is created.
		JetStreamMaxStore:  math.MaxInt64 / 4,
		JetStreamMaxMemory: 64 << 20, // for ordered consumers only; every stream of loaderd is on disk
		// Producers cannot use up the limit of uncommitted batches.
		JetStreamLimits: server.JSLimitOpts{MaxBatchInflightPerStream: proxy.StagedBatches*MaxProducers + operatorBatches},
	}
	if o.Cluster.Name != "" {
		// The server sends its client address to the other members and their clients, but only if it listens. On this
		// loopback listener it accepts no client, because clients lack the proxy's secret.
		opts.DontListen, opts.Host, opts.Port, opts.ClientAdvertise = false, "127.0.0.1", server.RANDOM_PORT,
			advertiseAddress(o.Listen)
	}
	certs.applyTo(opts)
	return opts, addAccounts(opts)
}

const (
	// authTimeout is the time limit for a client's CONNECT, in seconds, without the TLS handshake. The proxy's
	// limit is shorter.
	authTimeout = 6
	// MaxConnections bounds the client connections. At the bound, a new connection closes the oldest one without a
	// valid token.
	MaxConnections = 1024
	// MaxConnectionsPerHost is the same bound per host.
	MaxConnectionsPerHost = 512
	// descriptorPart bounds the share of the process's file descriptors for clients: 1/descriptorPart.
	descriptorPart = 8
	// operatorBatches is the number of uncommitted batches of a stream that are reserved for clients other than
	// producers.
	operatorBatches = 128
)

// advertiseAddress returns the client address for other machines.
func advertiseAddress(address string) string {
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

// hostPort parses a listen address into the form of the server's options.
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

// URL is the address for NATS clients; empty for a private server.
func (s *Server) URL() string { return s.url }

// BeginRead records that readers wait for documents, until done is called. The proxy then delays producers.
func (s *Server) BeginRead() (done func()) {
	if s.proxy == nil {
		return func() {}
	}
	return s.proxy.BeginRead()
}

// InProcessConn connects a client inside this process, without the network.
func (s *Server) InProcessConn() (net.Conn, error) { return s.server.InProcessConn() }

// probeListeners reports an address that is not available before anything is started, while the cause is still known.
// In a cluster it selects a free port for port 0, because the other members receive it before this one listens, and
// returns the listener, which keeps the port. Other addresses are released, so that clients use another member until
// the server has started.
func probeListeners(ctx context.Context, o *Options) (keep net.Listener, err error) {
	if o.Private {
		return nil, nil
	}
	clients, err := listen(ctx, o.Listen, "NATS clients", "stream.listen")
	if err != nil {
		return nil, err
	}
	if o.Cluster.Name == "" {
		return nil, clients.Close()
	}
	routes, err := listen(ctx, o.Cluster.Listen, "routes of the cluster", "stream.cluster.listen")
	if err == nil {
		err = routes.Close()
	}
	if _, port, _ := net.SplitHostPort(o.Listen); err != nil || port != "0" {
		return nil, errors.Join(err, clients.Close())
	}
	o.Listen = clients.Addr().String()
	return clients, nil
}

// closeOnError closes a listener, unless it is nil, if err is an error.
func closeOnError(l net.Listener, err *error) {
	if l != nil && *err != nil {
		_ = l.Close() // fails if the proxy has closed it
	}
}

func listen(ctx context.Context, address, whose, key string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen for %s on %s: %w: another program has this port; choose another with %s%s", whose,
			address, err, key, freePortHint(key))
	}
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %s (%s): %w", whose, address, key, err)
	}
	return l, nil
}

// freePortHint is the hint that port 0 selects a free port. The port of routes must be fixed, because other members
// need it.
func freePortHint(key string) string {
	if key == "stream.listen" {
		return " (port 0 takes a free one)"
	}
	return ""
}

// start waits until the server accepts clients. Loading a large store takes a while, so only ctx bounds it.
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
		return errors.New("JetStream did not start; the log has the reason")
	}
	return nil
}

// Health returns nil while every stream can be written. It returns within healthTimeout, and all callers within
// healthCacheTime get the same result. A client that gets an error therefore also finds it as the cause of a failure
// in another account.
func (s *Server) Health() error { return s.health.recentResult() }

// CheckHealth returns whether every stream can be written now. It returns within twice hungTimeout.
func (s *Server) CheckHealth() error { return s.health.freshResult() }

// checkHealth blocks while a write of the server blocks, because the server's health check waits for the
// streams' locks.
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
		full := isOutOfSpace(h.Error) || free >= 0 && free < minFreeSpace
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
		if s.proxyConn != nil {
			s.proxyConn.Close()
		}
		if s.proxy != nil {
			_ = s.proxy.Close() // releases the address
		}
		<-s.started // a server that is shut down during its start continues to start and write
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("stop embedded NATS server in %s: not done after %v", s.folder.path, stopTimeout)
	}
}

// Stop stops the server, then unlocks the folder, always in this order.
func (s *Server) Stop() error {
	if err := s.shutdown(); err != nil {
		return err // the folder stays locked until the process ends, because the server may still write
	}
	return s.folder.release()
}

// DiskFree returns the free space of the store's disk, in bytes.
func (s *Server) DiskFree() (int64, error) {
	free, err := diskspace.Free(s.folder.path)
	if err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", filepath.Clean(s.folder.path), err)
	}
	return free, nil
}

// clientURL returns the address of a listener for clients on this machine, also if it listens on all interfaces.
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
