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

// Watcher knows how the run does, beyond what a Run tells of itself.
type Watcher = action.Watcher

// Watch lets the server answer status and history. It is called before Start.
func (s *Server) Watch(w Watcher) { s.service.actions.Watcher = w }

// Ask asks for an action for a caller that came by HTTP. Roles, limits, audit and errors (*fault.Error) are those of
// Flight, with one difference: where no token is asked for, a caller from beyond loopback or behind a proxy, or one
// without the certificate that Flight asks for, may only read.
func (s *Server) Ask(ctx context.Context, from auth.Caller, name string,
	body []byte) (results []json.RawMessage, err error) {
	_, err = s.guard.admit(incoming(ctx, from), "HTTP "+name, func(ctx context.Context) error {
		if !s.gate.Asks() && (s.cfg.ClientCA != "" && from.Certificate == nil || !from.Local()) {
			who := caller.Of(ctx)
			who.Role = auth.Read
			ctx = caller.With(ctx, who)
		}
		return s.service.actions.Act(ctx, name, body, func(result []byte) error {
			results = append(results, result)
			return nil
		})
	})
	return results, err
}

// Identify returns who sends a request by HTTP, from its headers alone: before its body is read. what names the request
// in the log.
func (s *Server) Identify(ctx context.Context, from auth.Caller, what string) (who auth.Identity, err error) {
	_, err = s.guard.admit(incoming(ctx, from), "HTTP "+what, func(ctx context.Context) error {
		who = caller.Of(ctx)
		return nil
	})
	return who, err
}

// Scrape is Identify for a request for metrics. It refuses an identity that makes too many of them (LIMITED).
func (s *Server) Scrape(ctx context.Context, from auth.Caller, what string) (who auth.Identity, err error) {
	_, err = s.guard.admit(incoming(ctx, from), "HTTP "+what, func(ctx context.Context) error {
		who = caller.Of(ctx)
		return s.service.actions.Scrape(who)
	})
	return who, err
}

// LogIn returns a bearer token for a page, for a code of auth.SignPage.
func (s *Server) LogIn(ctx context.Context, from auth.Caller, code string) (token string, err error) {
	if token, err = s.gate.LogIn(code); err != nil {
		_, err = s.guard.answer(incoming(ctx, from), "HTTP login", badToken(err))
	}
	return token, err
}

// fromKey is the key of the caller of a request by HTTP, in a context.
type fromKey struct{}

// incoming is the context of a call by HTTP.
func incoming(ctx context.Context, from auth.Caller) context.Context {
	p := &peer.Peer{Addr: httpAddress(from.Address)}
	if from.Certificate != nil {
		p.AuthInfo = credentials.TLSInfo{State: tls.ConnectionState{
			VerifiedChains: [][]*x509.Certificate{{from.Certificate}}}}
	}
	ctx = context.WithValue(ctx, fromKey{}, from)
	return metadata.NewIncomingContext(peer.NewContext(ctx, p), metadata.MD{"authorization": from.Authorization})
}

// httpAddress is where a request came from: host:port.
type httpAddress string

func (httpAddress) Network() string  { return "tcp" }
func (a httpAddress) String() string { return string(a) }
