package arrowout

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"loaderd/arrowout/internal/caller"
	"loaderd/arrowout/internal/refusal"
	"loaderd/internal/auth"
	"loaderd/internal/event"
	"loaderd/internal/logsample"
	"loaderd/loader/fault"
)

// guard wraps every call. It authenticates the caller, turns panics into errors and errors into statuses that every
// Flight client understands, and counts them.
type guard struct {
	gate *auth.Gate
	run  string // name of the served run
	// exposed permits all actions to callers on any machine: no token is required beyond loopback.
	exposed bool
	log     *slog.Logger
	metrics *metrics
	calls   atomic.Uint64
	samples *logsample.Sampler
	refused refusals
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (resp any, err error) {
	callIn(ctx).received()
	err = g.call(ctx, info.FullMethod, func(md metadata.MD) {
		_ = grpc.SetTrailer(ctx, md)
	}, func(ctx context.Context) (err error) {
		resp, err = handle(ctx, req)
		return err
	})
	return resp, err
}

func (g *guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	return g.call(stream.Context(), info.FullMethod, stream.SetTrailer, func(ctx context.Context) error {
		return handle(srv, identified{stream, ctx})
	})
}

// identified is a stream whose context has the caller's identity.
type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (s identified) Context() context.Context { return s.ctx }

func (s identified) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	callIn(s.ctx).received()
	return err
}

func (g *guard) call(ctx context.Context, method string, trailer func(metadata.MD),
	handle func(ctx context.Context) error) error {
	s, err := g.admit(ctx, method, handle)
	callIn(ctx).end(ctx)
	if err == nil {
		return nil
	}
	trailer(arrowTrailers(s))
	return s.Err()
}

// admit runs handle for the authenticated caller, and logs and counts an error. The status is the one for Flight
// clients.
func (g *guard) admit(ctx context.Context, method string,
	handle func(ctx context.Context) error) (*status.Status, error) {
	who, err := g.identityOf(ctx, method)
	if err == nil {
		err = guarded(func() error { return handle(caller.With(ctx, who)) })
	}
	return g.answer(ctx, method, err)
}

// answer logs and counts an error, and delays the answer to a caller that is refused often.
func (g *guard) answer(ctx context.Context, method string, err error) (*status.Status, error) {
	if err == nil {
		return nil, nil
	}
	s := g.refuse(ctx, method, err)
	if slows(reasonOf(s)) {
		g.refused.wait(ctx, caller.Address(ctx))
	}
	return s, err
}

// refuse counts and logs an error, and returns the status for Flight clients.
func (g *guard) refuse(ctx context.Context, method string, err error) *status.Status {
	id := g.calls.Add(1)
	s := statusOf(err, id)
	if s.Code() != codes.Canceled { // how readers usually stop
		g.metrics.errors.WithLabelValues(reasonOf(s)).Inc()
	}
	g.report(ctx, id, method, s.Code(), err)
	return s
}

func (g *guard) report(ctx context.Context, id uint64, method string, code codes.Code, err error) {
	level, args := slog.LevelInfo, []any{event.CallFailed, "call", id, "method", method, "code", code.String(),
		"error", err}
	switch code {
	case codes.Internal, codes.DataLoss:
		level = slog.LevelError
	case codes.Canceled:
		level = slog.LevelDebug
	case codes.Unavailable:
		if strings.HasSuffix(method, "/DoGet") {
			level = slog.LevelDebug // a reader has left, which Session.tell logs
		}
	}
	var p *panicked
	if errors.As(err, &p) {
		args = append(args, "stack", string(p.stack))
	}
	if level < slog.LevelError {
		tell, left := g.samples.Allow(code.String())
		if !tell {
			return
		}
		if left > 0 {
			args = append(args, "more_of_the_kind", left)
		}
	}
	g.log.Log(context.WithoutCancel(ctx), level, "flight call failed", args...)
}

// identityOf returns the identity of the caller: the result of the tap, or for HTTP callers that of identify.
func (g *guard) identityOf(ctx context.Context, method string) (auth.Identity, error) {
	if x := callIn(ctx); x != nil {
		return x.who, x.unknown
	}
	who, err := g.identify(ctx, method, g.gate.Identify)
	from, _ := ctx.Value(fromKey{}).(auth.Caller)
	if err != nil && from.MayRead && len(from.Authorization) == 0 && g.gate.OwnOnly() {
		return auth.Identity{Role: auth.Read}, nil
	}
	return who, err
}

// identifier is a method of a Gate: Identify, or IdentifyOpen.
type identifier func(authorization []string, verified *x509.Certificate) (auth.Identity, error)

// identify authenticates the caller. Health checks need no identity, because load balancers have none.
func (g *guard) identify(ctx context.Context, method string, known identifier) (auth.Identity, error) {
	if isHealth(method) {
		return auth.Identity{}, nil
	}
	var verified *x509.Certificate
	if p, ok := peer.FromContext(ctx); ok {
		if t, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(t.State.VerifiedChains) > 0 {
			verified = t.State.VerifiedChains[0][0]
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	who, err := known(md.Get("authorization"), verified)
	if err != nil {
		return who, badToken(err)
	}
	if !g.gate.Asks() && !g.exposed && auth.Forwarded(md.Get) { // the caller may be on any machine
		who.Role = auth.Read
	}
	if !who.Sees(g.run) {
		return who, refusal.Forbidden(who, "it does not see the run that this daemon serves")
	}
	return who, nil
}

// badToken converts an error of a Gate into the error for the caller.
func badToken(err error) error {
	var unknown *auth.UnknownError
	if errors.As(err, &unknown) && unknown.Again {
		return &fault.Error{Reason: fault.Limited, Message: unknown.Message, Do: unknown.Do}
	}
	if errors.As(err, &unknown) {
		return &fault.Error{Reason: fault.BadToken, Message: unknown.Message, Do: unknown.Do}
	}
	return err
}

// panicked is a recovered panic.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guarded calls f and returns a panic as an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return f()
}
