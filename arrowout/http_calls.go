package arrowout

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"loaderd/arrowout/internal/action"
	"loaderd/arrowout/internal/caller"
	"loaderd/internal/auth"
)

// StatusProvider provides the status and history of the run, which a Run does not have.
type StatusProvider = action.StatusProvider

// SetStatusProvider enables the actions status and history. Call it before Start.
func (s *Server) SetStatusProvider(w StatusProvider) { s.service.actions.StatusProvider = w }

// DoAction carries out an action for a caller that connected by HTTP. Roles, limits, audit and errors (*fault.Error)
// are the same as for Flight, with one exception. If the server requires no token, some callers may only read: callers
// beyond loopback, callers behind a proxy, and callers without the client certificate that Flight requires.
func (s *Server) DoAction(ctx context.Context, from auth.Caller, name string,
	body []byte) (results []json.RawMessage, err error) {
	_, err = s.interceptor.handleAuthenticated(httpCallContext(ctx, from), "HTTP "+name, func(ctx context.Context) error {
		if !s.gate.RequiresAuth() && (s.cfg.ClientCA != "" && from.Certificate == nil || !from.IsLocal()) {
			who := caller.Identity(ctx)
			who.Role = auth.Read
			ctx = caller.WithIdentity(ctx, who)
		}
		return s.service.actions.Do(ctx, name, body, func(result []byte) error {
			results = append(results, result)
			return nil
		})
	})
	return results, err
}

// Identify returns the identity of the sender of an HTTP request. It needs only the headers, so it can run before the
// body is read. what names the request in the log.
func (s *Server) Identify(ctx context.Context, from auth.Caller, what string) (who auth.Identity, err error) {
	_, err = s.interceptor.handleAuthenticated(httpCallContext(ctx, from), "HTTP "+what, func(ctx context.Context) error {
		who = caller.Identity(ctx)
		return nil
	})
	return who, err
}

// AuthorizeScrape is Identify for a request for metrics. It returns LIMITED if an identity makes too many such
// requests.
func (s *Server) AuthorizeScrape(ctx context.Context, from auth.Caller, what string) (who auth.Identity, err error) {
	_, err = s.interceptor.handleAuthenticated(httpCallContext(ctx, from), "HTTP "+what, func(ctx context.Context) error {
		who = caller.Identity(ctx)
		return s.service.actions.CountScrape(who)
	})
	return who, err
}

// LogIn exchanges a code of auth.SignPage for the bearer token of a page.
func (s *Server) LogIn(ctx context.Context, from auth.Caller, code string) (token string, err error) {
	if token, err = s.gate.LogIn(code); err != nil {
		_, err = s.interceptor.rejectCall(httpCallContext(ctx, from), "HTTP login", authError(err))
	}
	return token, err
}

// httpCallerKey is the context key of the caller of an HTTP request.
type httpCallerKey struct{}

// httpCallContext returns the context of a call that arrived by HTTP.
func httpCallContext(ctx context.Context, from auth.Caller) context.Context {
	p := &peer.Peer{Addr: httpAddress(from.Address)}
	if from.Certificate != nil {
		p.AuthInfo = credentials.TLSInfo{State: tls.ConnectionState{
			VerifiedChains: [][]*x509.Certificate{{from.Certificate}}}}
	}
	ctx = context.WithValue(ctx, httpCallerKey{}, from)
	return metadata.NewIncomingContext(peer.NewContext(ctx, p), metadata.MD{"authorization": from.Authorization})
}

// httpAddress is the address from which a request was sent, as host:port.
type httpAddress string

func (httpAddress) Network() string  { return "tcp" }
func (a httpAddress) String() string { return string(a) }
