// Package webui serves the state of a run to people and tools: a page with a live view, and the same values as
// JSON. All values come from an Asker, with the permissions of the caller. docs/how-to/live-page.md describes both.
package webui

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"

	"loaderd/internal/auth"
)

// ActionRunner performs actions as Flight clients do, including the checks of roles and limits and the audit log.
// Errors with a reason are *fault.Error.
type ActionRunner interface {
	DoAction(ctx context.Context, from auth.Caller, action string, body []byte) (results []json.RawMessage, err error)
	// Identify returns the caller's identity, or the error with which Ask would reject every call of the caller.
	Identify(ctx context.Context, from auth.Caller, what string) (auth.Identity, error)
	// LogIn returns a bearer token for a page in exchange for the code of its link.
	LogIn(ctx context.Context, from auth.Caller, code string) (token string, err error)
}

// Config describes the daemon of a Page.
type Config struct {
	Actions ActionRunner
	// RequiresAuth reports whether callers must authenticate. If not, only requests that name this machine in Host are
	// served.
	RequiresAuth func() bool
	// MayRead permits callers without a token to read, if the daemon requires only the token of the data folder.
	MayRead bool
	// HostNames are host names of this machine in requests, in addition to localhost, its own name and IP addresses.
	HostNames []string
	Log       *slog.Logger
}

// Page is the handler of the page, its JSON and further routes of a daemon. Its methods except Handle are safe for
// concurrent use.
type Page struct {
	config      Config
	mux         *http.ServeMux
	routes      []string // patterns of mux
	handler     http.Handler
	viewers     viewers
	streams     atomic.Int64 // number of open event streams
	lifetime    context.Context
	endLifetime context.CancelFunc
}

// New returns the handler for all paths of a daemon, including those that Handle adds.
func New(c Config) *Page {
	p := &Page{config: c, mux: http.NewServeMux(), viewers: viewers{byIdentity: map[string]*viewer{}}}
	p.lifetime, p.endLifetime = context.WithCancel(context.Background())
	p.viewers.actions = c.Actions

	p.Handle("/", assetHandler())
	p.Handle("GET /api/status", p.serveCached(statusAction))
	p.Handle("GET /api/history", p.serveCached(historyAction))
	p.Handle("GET /api/events", http.HandlerFunc(p.serveEvents))
	p.Handle("GET /api/step/{step}", http.HandlerFunc(p.serveStep))
	p.Handle("GET /api/find", http.HandlerFunc(p.serveRows))
	p.Handle("GET /api/text", http.HandlerFunc(p.serveText))
	p.Handle("POST /api/action/{action}", http.HandlerFunc(p.serveAction))
	p.Handle("POST /api/login", http.HandlerFunc(p.serveLogin))
	p.Handle("/api/", http.HandlerFunc(p.serveNotFound))
	p.handler = protect(c, p.mux)
	return p
}

// Handle adds a route with a pattern of http.ServeMux. It must be called before the page serves requests. The handler
// does not receive requests that a page of another site may have sent.
func (p *Page) Handle(pattern string, h http.Handler) {
	p.routes = append(p.routes, pattern)
	p.mux.Handle(pattern, h)
}

// Routes returns the patterns of all routes.
func (p *Page) Routes() []string { return slices.Clone(p.routes) }

func (p *Page) ServeHTTP(w http.ResponseWriter, q *http.Request) { p.handler.ServeHTTP(w, q) }

// Close ends all event streams. Otherwise the shutdown of an http.Server would wait for them.
func (p *Page) Close() { p.endLifetime() }

// caller returns the sender of a request to the page.
func (p *Page) caller(q *http.Request) auth.Caller {
	c := CallerOf(q)
	c.MayRead = p.config.MayRead
	return c
}

// CallerOf returns the sender of a request.
func CallerOf(q *http.Request) auth.Caller {
	c := auth.Caller{Authorization: q.Header.Values("Authorization"), Address: q.RemoteAddr,
		Forwarded: auth.IsForwarded(q.Header.Values)}
	if q.TLS != nil && len(q.TLS.VerifiedChains) > 0 && len(q.TLS.VerifiedChains[0]) > 0 {
		c.Certificate = q.TLS.VerifiedChains[0][0]
	}
	return c
}
