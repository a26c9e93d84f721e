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

// interceptor wraps every call. It authenticates the caller, turns panics into errors and errors into statuses that
// every Flight client understands, and counts them.
type interceptor struct {
	gate *auth.Authenticator
	run  string // name of the served run
	// permitsAll permits all actions to callers on any machine: no token is required beyond loopback.
	permitsAll bool
	log        *slog.Logger
	metrics    *metrics
	lastCallID atomic.Uint64
	samples    *logsample.Sampler
	rejections rejectBackoff
}

func (g *interceptor) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (resp any, err error) {
	callFromContext(ctx).markReceived()
	err = g.handleCall(ctx, info.FullMethod, func(md metadata.MD) {
		_ = grpc.SetTrailer(ctx, md)
	}, func(ctx context.Context) (err error) {
		resp, err = handle(ctx, req)
		return err
	})
	return resp, err
}

func (g *interceptor) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	return g.handleCall(stream.Context(), info.FullMethod, stream.SetTrailer, func(ctx context.Context) error {
		return handle(srv, authenticatedStream{stream, ctx})
	})
}

// authenticatedStream is a stream whose context has the caller's identity.
type authenticatedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s authenticatedStream) Context() context.Context { return s.ctx }

func (s authenticatedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	callFromContext(s.ctx).markReceived()
	return err
}

func (g *interceptor) handleCall(ctx context.Context, method string, trailer func(metadata.MD),
	handle func(ctx context.Context) error) error {
	s, err := g.handleAuthenticated(ctx, method, handle)
	callFromContext(ctx).markEnded(ctx)
	if err == nil {
		return nil
	}
	trailer(arrowTrailers(s))
	return s.Err()
}

// handleAuthenticated runs handle for the authenticated caller, and logs and counts an error. The status is the one for
// Flight clients.
func (g *interceptor) handleAuthenticated(ctx context.Context, method string,
	handle func(ctx context.Context) error) (*status.Status, error) {
	who, err := g.callerIdentity(ctx, method)
	if err == nil {
		err = recoverPanic(func() error { return handle(caller.WithIdentity(ctx, who)) })
	}
	return g.rejectCall(ctx, method, err)
}

// rejectCall logs and counts an error, and delays the answer to a caller that is refused often.
func (g *interceptor) rejectCall(ctx context.Context, method string, err error) (*status.Status, error) {
	if err == nil {
		return nil, nil
	}
	s := g.recordError(ctx, method, err)
	if isDelayedReason(reasonOf(s)) {
		g.rejections.delay(ctx, caller.Address(ctx))
	}
	return s, err
}

// recordError counts and logs an error, and returns the status for Flight clients.
func (g *interceptor) recordError(ctx context.Context, method string, err error) *status.Status {
	id := g.lastCallID.Add(1)
	s := statusOf(err, id)
	if s.Code() != codes.Canceled { // how readers usually stop
		g.metrics.errors.WithLabelValues(reasonOf(s)).Inc()
	}
	g.logError(ctx, id, method, s.Code(), err)
	return s
}

func (g *interceptor) logError(ctx context.Context, id uint64, method string, code codes.Code, err error) {
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
	var p *panicError
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

// callerIdentity returns the identity of the caller: the result of the tap, or for HTTP callers that of identify.
func (g *interceptor) callerIdentity(ctx context.Context, method string) (auth.Identity, error) {
	if x := callFromContext(ctx); x != nil {
		return x.identity, x.identityErr
	}
	who, err := g.identify(ctx, method, g.gate.Identify)
	from, _ := ctx.Value(httpCallerKey{}).(auth.Caller)
	if err != nil && from.MayRead && len(from.Authorization) == 0 && g.gate.HasOnlyOwnToken() {
		return auth.Identity{Role: auth.Read}, nil
	}
	return who, err
}

// identifyFunc is a method of a Gate: Identify, or IdentifyOpenCall.
type identifyFunc func(authorization []string, verified *x509.Certificate) (auth.Identity, error)

// identify authenticates the caller. Health checks need no identity, because load balancers have none.
func (g *interceptor) identify(ctx context.Context, method string, known identifyFunc) (auth.Identity, error) {
	if isHealthCheck(method) {
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
		return who, authError(err)
	}
	if !g.gate.RequiresAuth() && !g.permitsAll && auth.IsForwarded(md.Get) { // the caller may be on any machine
		who.Role = auth.Read
	}
	if !who.CanAccessRun(g.run) {
		return who, refusal.Forbidden(who, "it has no access to the run that this daemon serves")
	}
	return who, nil
}

// authError converts an error of a Gate into the error for the caller.
func authError(err error) error {
	var unknown *auth.UnauthenticatedError
	if errors.As(err, &unknown) && unknown.Retryable {
		return &fault.Error{Reason: fault.Limited, Message: unknown.Message, Advice: unknown.Do}
	}
	if errors.As(err, &unknown) {
		return &fault.Error{Reason: fault.InvalidToken, Message: unknown.Message, Advice: unknown.Do}
	}
	return err
}

// panicError is a recovered panic.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// recoverPanic calls f and returns a panic as an error.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return f()
}
