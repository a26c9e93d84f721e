package arrowout

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"loaderd/loader"
)

// guard stands around every call: it checks the bearer token, turns panics into errors and errors into statuses that every
// Flight client understands, and counts them.
type guard struct {
	token   [sha256.Size]byte // hash of the bearer token
	ask     bool              // whether to ask for it
	log     *slog.Logger
	metrics *metrics
	calls   atomic.Uint64
}

func newGuard(token string, log *slog.Logger, m *metrics) *guard {
	return &guard{token: sha256.Sum256([]byte(token)), ask: token != "", log: log, metrics: m}
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	err = g.call(ctx, info.FullMethod, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }, func() (err error) {
		resp, err = handle(ctx, req)
		return err
	})
	return resp, err
}

func (g *guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return g.call(stream.Context(), info.FullMethod, stream.SetTrailer, func() error { return handle(srv, stream) })
}

func (g *guard) call(ctx context.Context, method string, trailer func(metadata.MD), handle func() error) error {
	err := g.authenticate(ctx, method)
	if err == nil {
		err = guarded(handle)
	}
	if err == nil {
		return nil
	}
	id := g.calls.Add(1)
	s := statusOf(err, id)
	if s.Code() != codes.Canceled { // how readers usually stop
		g.metrics.errors.WithLabelValues(reasonOf(s)).Inc()
	}
	g.report(ctx, id, method, s.Code(), err)
	trailer(arrowTrailers(s))
	return s.Err()
}

func (g *guard) report(ctx context.Context, id uint64, method string, code codes.Code, err error) {
	level, args := slog.LevelInfo, []any{"call", id, "method", method, "code", code.String(), "error", err}
	switch code {
	case codes.Internal, codes.DataLoss:
		level = slog.LevelError
	case codes.Canceled:
		level = slog.LevelDebug
	case codes.Unavailable:
		if strings.HasSuffix(method, "/DoGet") {
			level = slog.LevelDebug // a reader has gone, which is told
		}
	}
	var p *panicked
	if errors.As(err, &p) {
		args = append(args, "stack", string(p.stack))
	}
	g.log.Log(context.WithoutCancel(ctx), level, "flight call failed", args...)
}

// authenticate checks the bearer token in constant time. Health checks need none, as load balancers have none.
func (g *guard) authenticate(ctx context.Context, method string) error {
	if !g.ask || strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get("authorization")
	for _, v := range given {
		scheme, token, _ := strings.Cut(v, " ")
		sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
		if strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 {
			return nil
		}
	}
	message := "the call has no bearer token"
	if len(given) > 0 {
		message = "the call's bearer token is wrong"
	}
	return &loader.Error{Reason: loader.BadToken, Message: message, Do: "send the header authorization: Bearer TOKEN with the daemon's token"}
}

// panicked is a panic that was caught.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guarded calls f and returns its panic as an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return f()
}
