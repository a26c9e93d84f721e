package webui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"loaderd/internal/auth"
)

// cachedAction is a request with the same result for all pages of an identity. The result is requested once for all of
// them.
type cachedAction struct {
	action string
	maxAge time.Duration // how long a result is used
}

var (
	statusAction  = cachedAction{"status", time.Second}
	historyAction = cachedAction{"history", 2 * time.Second}
)

// actionTimeout is the time limit of a request. The request serves all waiting callers, so none of them can cancel it.
const actionTimeout = 15 * time.Second

// actionResult is the result of a question. It is immutable.
type actionResult struct {
	createdAt time.Time
	body      // JSON in one line
	err       error
}

// viewers are the identities with active requests. An identity's state is released with its last request, because a
// caller can make up any number of tokens.
type viewers struct {
	actions    ActionRunner
	mu         sync.Mutex
	byIdentity map[string]*viewer
}

// viewer is the shared state of all callers with one identity.
type viewer struct {
	actions  ActionRunner
	caller   auth.Caller // the first caller
	refCount int         // guarded by the mutex of viewers

	mu          sync.Mutex
	results     map[string]*actionResult
	pending     map[string]chan struct{} // closed when the pending result exists
	subscribers int                      // number of open event streams
	event       *event                   // the newest event
	changed     chan struct{}            // closed when a newer event exists
	stop        context.CancelFunc       // stops the generation of events
}

// acquire returns the viewer of from's identity, and a function that the caller must call when it no longer needs it.
func (v *viewers) acquire(from auth.Caller) (*viewer, func()) {
	h := sha256.New()
	fmt.Fprintln(h, from.IsLocal()) // without tokens, callers of this machine may have more permissions
	for _, a := range from.Authorization {
		fmt.Fprintf(h, "%q ", a)
	}
	if from.Certificate != nil && len(from.Authorization) == 0 {
		h.Write(from.Certificate.Raw)
	}
	key := string(h.Sum(nil))
	v.mu.Lock()
	defer v.mu.Unlock()
	one := v.byIdentity[key]
	if one == nil {
		one = &viewer{actions: v.actions, caller: from, results: map[string]*actionResult{},
			pending: map[string]chan struct{}{},
			changed: make(chan struct{})}
		v.byIdentity[key] = one
	}
	one.refCount++
	return one, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if one.refCount--; one.refCount == 0 {
			delete(v.byIdentity, key)
		}
	}
}

// fetch returns the result of a question, which is younger than q.fresh.
func (v *viewer) fetch(ctx context.Context, q cachedAction) (*actionResult, error) {
	for {
		v.mu.Lock()
		if a := v.results[q.action]; a != nil && time.Since(a.createdAt) < q.maxAge {
			v.mu.Unlock()
			return a, a.err
		}
		wait := v.pending[q.action]
		if wait == nil {
			wait = make(chan struct{})
			v.pending[q.action] = wait
			go v.request(context.WithoutCancel(ctx), q, wait)
		}
		v.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// request requests a result and stores it.
func (v *viewer) request(ctx context.Context, q cachedAction, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	a := &actionResult{}
	var results []json.RawMessage
	results, a.err = v.actions.DoAction(ctx, v.caller, q.action, nil)
	a.createdAt = time.Now()
	if a.err == nil && len(results) != 1 {
		a.err = fmt.Errorf("action %s has %d results, want 1", q.action, len(results))
	}
	if a.err == nil {
		a.plain = compactLine(results[0])
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.results[q.action] = a
	delete(v.pending, q.action)
	close(done)
}

// compactLine returns a document in one line, because line breaks separate the fields of an event.
func compactLine(b []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return append(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), '\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// serveCached serves the result of a question.
func (p *Page) serveCached(asked cachedAction) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		v, leave := p.viewers.acquire(p.caller(q))
		defer leave()
		a, err := v.fetch(q.Context(), asked)
		if err != nil {
			writeError(w, err)
			return
		}
		b := a.plain
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(q) {
			h.Set("Content-Encoding", "gzip")
			b = a.gzip()
		}
		_, _ = w.Write(b) // no error handling: the client is gone
	}
}
