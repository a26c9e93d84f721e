package arrowout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"loaderd/arrowout/internal/action"
	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/session"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/internal/connlimit"
	"loaderd/internal/event"
	"loaderd/internal/logsample"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// Limits and buffer sizes of connections. The client sets the flow-control windows for sending; those of a server
// bound only what it receives.
const (
	readBuffer    = 1 << 10   // per connection; a closed connection still serves the calls in its buffer
	writeBuffer   = 256 << 10 // per connection while it sends
	streamWindow  = 64 << 10  // bytes of a call that a client may send before they are read
	pingTimeout   = 20 * time.Second
	minClientPing = 10 * time.Second
	// handshakeTimeout is the time limit for TLS and the preface of HTTP/2. identifyTimeout is the time limit for the
	// first identified call of a connection.
	handshakeTimeout = 10 * time.Second
	identifyTimeout  = 30 * time.Second
)

// Server is a Flight server for one run.
type Server struct {
	cfg          Config
	gate         *auth.Authenticator
	certificates *auth.Certificates
	log          *slog.Logger
	grpc         *grpc.Server
	health       *health.Server
	stop         context.CancelCauseFunc
	listener     net.Listener
	serveErr     chan error
	sessions     *session.Registry
	interceptor  *interceptor
	calls        *callRegistry
	service      *service
}

// NewServer returns a server, after reading its identities and certificates. Start makes it listen. With a nil
// registerer the metrics are not registered.
func NewServer(cfg Config, run Run, log *slog.Logger, reg prometheus.Registerer) (*Server, error) {
	var bad []error
	for _, e := range cfg.Validate() {
		bad = append(bad, e)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, fmt.Errorf("configure the flight server: %w", err)
	}
	gate, err := auth.Open(auth.Config{TokenFile: cfg.TokenFile, Identities: cfg.Identities, Own: cfg.OwnToken,
		Certificates: cfg.ClientCA != ""})
	if err != nil {
		return nil, err
	}
	certificates, err := auth.OpenCertificates(cfg.Cert, cfg.Key, cfg.ClientCA)
	if err != nil {
		return nil, err
	}
	sessions := session.New(sessionLimits(cfg), isRetryable, log)
	m, err := newMetrics(reg, sessions)
	if err != nil {
		return nil, err
	}
	g := &interceptor{gate: gate, run: run.Info().Run, permitsAll: cfg.Insecure && auth.IsExposed(cfg.Listen), log: log,
		metrics: m,
		samples: logsample.New()}
	calls := newCallRegistry(g, sessions.MaxStreamsPerIdentity)
	options := append(transportOptions(cfg, certificates, log),
		grpc.InTapHandle(calls.admit),
		grpc.ForceServerCodecV2(batch.NewCodec()),
		grpc.ChainUnaryInterceptor(g.interceptUnary),
		grpc.ChainStreamInterceptor(g.interceptStream))

	stopping, stop := context.WithCancelCause(context.Background())
	s := &Server{cfg: cfg, gate: gate, certificates: certificates, log: log, grpc: grpc.NewServer(options...),
		health: health.NewServer(), stop: stop, serveErr: make(chan error, 1),
		sessions: sessions, interceptor: g, calls: calls}
	s.service = &service{run: run, actions: action.NewHandler(run,
		action.Config{CommittingJobsPerIdentity: cfg.MaxCommittingJobsPerIdentity,
			TrainMayMix: cfg.TrainMayMix}, sessions.RecordReport, log),
		batchBytes: cfg.BatchBytes, metrics: m, sessions: sessions, bufferPool: batch.NewBufferPool(), stopping: stopping}
	flight.RegisterFlightServiceServer(s.grpc, s.service)
	grpc_health_v1.RegisterHealthServer(s.grpc, healthChecks{s.health})
	return s, nil
}

func transportOptions(cfg Config, certificates *auth.Certificates, log *slog.Logger) []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(api.MaxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxCalls), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(streamWindow),
		grpc.ReadBufferSize(readBuffer), grpc.WriteBufferSize(writeBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.Keepalive, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
	}
	if c := certificates.Config("h2"); c != nil {
		options = append(options, grpc.Creds(handshakeLogger{credentials.NewTLS(c), log, logsample.New()}))
	}
	return options
}

// handshakeLogger logs failed TLS handshakes, sampled.
type handshakeLogger struct {
	credentials.TransportCredentials
	log     *slog.Logger
	samples *logsample.Sampler
}

func (h handshakeLogger) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := h.TransportCredentials.ServerHandshake(c)
	if err != nil {
		h.samples.Log(h.log, slog.LevelInfo, "TLS handshake failed", event.HandshakeFailed, "address",
			c.RemoteAddr().String(), "error", err)
	}
	return secure, info, err
}

// SetTokenText makes the server return documents with the texts of their tokens; f appends the text of a token. Call it
// before Start. With a nil f, and by default, documents have only token ids.
func (s *Server) SetTokenText(f func(dst []byte, id int32) []byte) { s.service.actions.TokenText = f }

// Start starts to listen and serves in the background.
func (s *Server) Start() error {
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf(
			"listen for Flight clients on %s: %w: choose another address with flight.listen (port 0 selects a free one)",
			s.cfg.Listen, err)
	}
	s.listener = l
	s.gate.SetFlightAddress(l.Addr().String())
	l = connectionListener{connlimit.New(l, connlimit.Config{Max: s.cfg.MaxConnections,
		MaxPerHost:      s.cfg.MaxConnectionsPerHost,
		IdentifyTimeout: identifyTimeout, Log: s.log}), s.sessions.ReleaseConnection}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && s.cfg.Insecure {
		s.log.Warn(
			"flight.insecure is set: any client that reaches this address has every role, or tokens are sent unencrypted",
			"listen",
			l.Addr().String())
	}
	watch, end := context.WithCancel(context.Background())
	go s.sessions.RunReaper(watch)
	go s.calls.watchIdentities(watch)
	go func() {
		defer end()
		err := s.grpc.Serve(l)
		if errors.Is(err, grpc.ErrServerStopped) { // before serving had started
			err = nil
		}
		s.serveErr <- err
	}()
	return nil
}

// Tracer receives sampled documents that were sent.
type Tracer interface {
	// RecordRead records that the rows of a step in which a document begins were assembled for a rank and sent, between
	// from and until. It must not block.
	RecordRead(d document.TracedDocument, by state.RankID, step uint64, from, until time.Time)
}

// SetTracer sets the receiver of sampled documents. Call it before Start, if the run's documents have traces.
func (s *Server) SetTracer(t Tracer) { s.service.tracer = t }

// ReadTracker records when readers are served, so that other work can yield to them.
type ReadTracker interface {
	// BeginRead records that a batch of a step is assembled for a reader, until done is called.
	BeginRead() (done func())
}

// SetReadTracker sets the receiver of reads. Reads of steps that were not ready are left out, because such a reader
// waits for documents. Call it before Start.
func (s *Server) SetReadTracker(t ReadTracker) { s.service.tracker = t }

// Gate returns the authenticator of the server, with the permitted identities. Its Reload method rereads them and ends
// no stream.
func (s *Server) Gate() *auth.Authenticator { return s.gate }

// Certificates returns the certificates of the server.
func (s *Server) Certificates() *auth.Certificates { return s.certificates }

// ApplyLimits applies the limits of a valid configuration: of streams, committing jobs, memory and slow readers. All
// other fields are ignored. The limits of connections are set only at the start.
func (s *Server) ApplyLimits(c Config) {
	s.service.actions.SetLimits(c.MaxCommittingJobsPerIdentity)
	s.sessions.SetLimits(sessionLimits(c))
}

func sessionLimits(c Config) session.Limits {
	return session.Limits{Streams: c.MaxStreams, StreamsPerIdentity: c.MaxStreamsPerIdentity, Bytes: int64(c.SendBytes),
		SlowReader: c.SlowReaderTimeout}
}

// isRetryable reports whether a client retries after an error with a reason.
func isRetryable(r fault.Reason) bool { return Code(r) == codes.Unavailable }

// StreamStats describes an open DoGet stream and what it is sent.
type StreamStats = session.StreamStats

// StreamStats describes all open streams, by job, world and rank.
func (s *Server) StreamStats() []StreamStats { return s.sessions.StreamStats(time.Now()) }

// Methods returns the full names of the gRPC methods that the server has, in order.
func (s *Server) Methods() (names []string) {
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			names = append(names, "/"+service+"/"+m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Addr is the address that Start listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// ServeErr receives the error that ended serving, nil after Shutdown.
func (s *Server) ServeErr() <-chan error { return s.serveErr }

// shutdownGrace is how long Shutdown waits for readers to take the reason of the stop. A reader that does not read,
// because its trainer is slow, only notices the end of its connection. It reconnects at the same step and loses
// nothing.
const shutdownGrace = 2 * time.Second

// Shutdown ends every stream with UNAVAILABLE and the reason SHUTTING_DOWN, waits until clients have received it, and
// stops. It closes connections whose clients have not received it at the end of ctx, or after two seconds. This is
// not an error.
func (s *Server) Shutdown(ctx context.Context) {
	s.health.Shutdown()
	s.stop(&fault.Error{Reason: fault.ShuttingDown, Message: "the daemon stops",
		Advice: "reconnect and continue with the same step"})
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.grpc.GracefulStop()
	}()
	grace := time.NewTimer(shutdownGrace)
	defer grace.Stop()
	select {
	case <-graceful:
		return
	case <-grace.C:
	case <-ctx.Done():
	}
	s.log.Info("closing connections of idle readers", "after", shutdownGrace)
	s.grpc.Stop()
	<-graceful
}
