// Package livepage serves what a run does to people and their tools: one page that shows it live, and the same figures
// as JSON. All that it says comes from an Asker, as whoever calls; docs/livepage.md is the page about both.
package livepage

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"

	"loaderd/internal/access"
)

// Asker is the daemon's answer to an action, as Flight clients get it: roles, limits and audit are checked there.
// Errors that say more than that something failed are *fault.Error.
type Asker interface {
	Ask(ctx context.Context, from access.Caller, action string, body []byte) (results []json.RawMessage, err error)
	// Identify returns who calls, or why Ask would refuse every call of the caller.
	Identify(ctx context.Context, from access.Caller, what string) (access.Identity, error)
	// LogIn returns a bearer token for a page, for the code of its link.
	LogIn(ctx context.Context, from access.Caller, code string) (token string, err error)
}

// Config says what a Page needs to know of its daemon.
type Config struct {
	Asker Asker
	// Asks says whether callers have to say who they are. While nobody has to, only requests that name this machine are
	// answered.
	Asks func() bool
	// MayRead says that callers without a token may read, where only the token of the data folder is asked for.
	MayRead bool
	// Names are host names that stand for this machine in requests, beside localhost, its own name and IP addresses.
	Names []string
	Log   *slog.Logger
}

// Page is the handler of the page, its JSON and further routes of a daemon. Except Handle, its methods may be called
// from several goroutines.
type Page struct {
	config  Config
	mux     *http.ServeMux
	routes  []string // patterns of mux
	handler http.Handler
	viewers viewers
	streams atomic.Int64 // of events, open now
	closing context.Context
	close   context.CancelFunc
}

// New returns the handler for all paths of a daemon: its own, and those that Handle adds.
func New(c Config) *Page {
	p := &Page{config: c, mux: http.NewServeMux(), viewers: viewers{all: map[string]*viewer{}}}
	p.closing, p.close = context.WithCancel(context.Background())
	p.viewers.asker = c.Asker

	p.Handle("/", assets())
	p.Handle("GET /api/status", p.shared(status))
	p.Handle("GET /api/history", p.shared(history))
	p.Handle("GET /api/events", http.HandlerFunc(p.events))
	p.Handle("GET /api/step/{step}", http.HandlerFunc(p.step))
	p.Handle("GET /api/find", http.HandlerFunc(p.find))
	p.Handle("GET /api/text", http.HandlerFunc(p.text))
	p.Handle("POST /api/action/{action}", http.HandlerFunc(p.action))
	p.Handle("POST /api/login", http.HandlerFunc(p.logIn))
	p.Handle("/api/", http.HandlerFunc(p.unknown))
	p.handler = guarded(c, p.mux)
	return p
}

// Handle adds a route, by a pattern of http.ServeMux, before the page serves requests. Requests that another site's
// page may have sent are refused there too.
func (p *Page) Handle(pattern string, h http.Handler) {
	p.routes = append(p.routes, pattern)
	p.mux.Handle(pattern, h)
}

// Routes returns the patterns of all routes.
func (p *Page) Routes() []string { return slices.Clone(p.routes) }

func (p *Page) ServeHTTP(w http.ResponseWriter, q *http.Request) { p.handler.ServeHTTP(w, q) }

// Close ends all streams of events, which an http.Server that shuts down would wait for.
func (p *Page) Close() { p.close() }

// caller is who sends a request to the page.
func (p *Page) caller(q *http.Request) access.Caller {
	c := CallerOf(q)
	c.MayRead = p.config.MayRead
	return c
}

// CallerOf is who sends a request.
func CallerOf(q *http.Request) access.Caller {
	c := access.Caller{Authorization: q.Header.Values("Authorization"), Address: q.RemoteAddr,
		Forwarded: access.Forwarded(q.Header.Values)}
	if q.TLS != nil && len(q.TLS.VerifiedChains) > 0 && len(q.TLS.VerifiedChains[0]) > 0 {
		c.Certificate = q.TLS.VerifiedChains[0][0]
	}
	return c
}
