package arrowout

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"loaderd/loader"
)

// What a connection costs and bears. (Windows are the client's to set: those of a server bound only what it receives.)
const (
	maxRequest    = 64 << 10 // bytes of a ticket or an action's body
	socketBuffer  = 256 << 10
	pingTimeout   = 20 * time.Second
	minClientPing = 10 * time.Second
)

// Server is a Flight server for one run.
type Server struct {
	cfg    Config
	log    *slog.Logger
	grpc   *grpc.Server
	health *health.Server
	stop   context.CancelCauseFunc
	listen net.Listener
	ended  chan error
}

// NewServer makes a server and reads its token and certificates; Start lets it listen. A nil registerer keeps metrics unregistered.
func NewServer(cfg Config, run Run, log *slog.Logger, reg prometheus.Registerer) (*Server, error) {
	var bad []error
	for _, e := range cfg.Validate() {
		bad = append(bad, e)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, fmt.Errorf("configure the flight server: %w", err)
	}
	token, err := readToken(cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	options, err := transportOptions(cfg)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	g := newGuard(token, log, m)
	options = append(options,
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ChainUnaryInterceptor(g.unary),
		grpc.ChainStreamInterceptor(g.stream))

	stopping, stop := context.WithCancelCause(context.Background())
	s := &Server{cfg: cfg, log: log, grpc: grpc.NewServer(options...), health: health.NewServer(), stop: stop, ended: make(chan error, 1)}
	flight.RegisterFlightServiceServer(s.grpc, &service{run: run, batchBytes: cfg.BatchBytes, metrics: m, visits: newVisits(log), stopping: stopping})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	return s, nil
}

func transportOptions(cfg Config) ([]grpc.ServerOption, error) {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.ReadBufferSize(socketBuffer), grpc.WriteBufferSize(socketBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.Keepalive, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
	}
	if cfg.Cert == "" {
		return options, nil
	}
	cert, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s and key %s: %w", cfg.Cert, cfg.Key, err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if cfg.ClientCA != "" {
		pem, err := os.ReadFile(cfg.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("read client CA: %w", err)
		}
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !t.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read client CA %s: no PEM certificate in it", cfg.ClientCA)
		}
	}
	return append(options, grpc.Creds(credentials.NewTLS(t))), nil
}

func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read bearer token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("read bearer token: %s is empty; put a token into it or leave token_file out", file)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("read bearer token: %s holds blanks or characters that no header carries; use letters, digits and -._~+/=", file)
	}
	return token, nil
}

// Start listens and serves in the background.
func (s *Server) Start() error {
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for Flight clients on %s: %w: choose another address with flight.listen (port 0 takes a free one)", s.cfg.Listen, err)
	}
	s.listen = l
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && s.cfg.TokenFile == "" && s.cfg.ClientCA == "" {
		s.log.Warn("flight clients need neither token nor certificate and the address is not loopback", "listen", l.Addr().String())
	}
	go func() { s.ended <- s.grpc.Serve(l) }()
	return nil
}

// Addr is the address that Start listens on.
func (s *Server) Addr() net.Addr { return s.listen.Addr() }

// Ended receives the error that ended serving, nil after Shutdown.
func (s *Server) Ended() <-chan error { return s.ended }

// Shutdown ends every stream with UNAVAILABLE and the reason SHUTTING_DOWN, waits until clients have it, and stops. What has not
// ended by the end of ctx is cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	s.stop(&loader.Error{Reason: ShuttingDown, Message: "the daemon stops", Do: "reconnect and go on with the same step"})
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.grpc.GracefulStop()
	}()
	select {
	case <-graceful:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-graceful
		return fmt.Errorf("stop the flight server: streams cut off: %w", context.Cause(ctx))
	}
}
