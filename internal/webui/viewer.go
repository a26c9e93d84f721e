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

// question is a request with the same result for all pages of an identity. The result is requested once for all of
// them.
type question struct {
	action string
	fresh  time.Duration // how long a result is used
}

var (
	status  = question{"status", time.Second}
	history = question{"history", 2 * time.Second}
)

// askFor is the time limit of a request. The request serves all waiting callers, so none of them can cancel it.
const askFor = 15 * time.Second

// answer is the result of a question. It is immutable.
type answer struct {
	made time.Time
	body // JSON in one line
	err  error
}

// viewers are the identities with active requests. An identity's state is released with its last request, because a
// caller can make up any number of tokens.
type viewers struct {
	asker Asker
	mu    sync.Mutex
	all   map[string]*viewer
}

// viewer is the shared state of all callers with one identity.
type viewer struct {
	asker Asker
	from  auth.Caller // the first caller
	users int         // guarded by the mutex of viewers

	mu      sync.Mutex
	latest  map[string]*answer
	asking  map[string]chan struct{} // closed when the pending result exists
	watched int                      // number of open event streams
	event   *event                   // the newest event
	changed chan struct{}            // closed when a newer event exists
	stop    context.CancelFunc       // stops the generation of events
}

// join returns the viewer of from's identity, and a function that the caller must call when it no longer needs it.
func (v *viewers) join(from auth.Caller) (*viewer, func()) {
	h := sha256.New()
	fmt.Fprintln(h, from.Local()) // without tokens, callers of this machine may have more permissions
	for _, a := range from.Authorization {
		fmt.Fprintf(h, "%q ", a)
	}
	if from.Certificate != nil && len(from.Authorization) == 0 {
		h.Write(from.Certificate.Raw)
	}
	key := string(h.Sum(nil))
	v.mu.Lock()
	defer v.mu.Unlock()
	one := v.all[key]
	if one == nil {
		one = &viewer{asker: v.asker, from: from, latest: map[string]*answer{}, asking: map[string]chan struct{}{},
			changed: make(chan struct{})}
		v.all[key] = one
	}
	one.users++
	return one, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(v.all, key)
		}
	}
}

// ask returns the result of a question, which is younger than q.fresh.
func (v *viewer) ask(ctx context.Context, q question) (*answer, error) {
	for {
		v.mu.Lock()
		if a := v.latest[q.action]; a != nil && time.Since(a.made) < q.fresh {
			v.mu.Unlock()
			return a, a.err
		}
		wait := v.asking[q.action]
		if wait == nil {
			wait = make(chan struct{})
			v.asking[q.action] = wait
			go v.make(context.WithoutCancel(ctx), q, wait)
		}
		v.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// make requests a result and stores it.
func (v *viewer) make(ctx context.Context, q question, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	a := &answer{}
	var results []json.RawMessage
	results, a.err = v.asker.Ask(ctx, v.from, q.action, nil)
	a.made = time.Now()
	if a.err == nil && len(results) != 1 {
		a.err = fmt.Errorf("action %s has %d results, want 1", q.action, len(results))
	}
	if a.err == nil {
		a.plain = line(results[0])
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latest[q.action] = a
	delete(v.asking, q.action)
	close(done)
}

// line returns a document in one line, because line breaks separate the fields of an event.
func line(b []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return append(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), '\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// shared serves the result of a question.
func (p *Page) shared(asked question) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		v, leave := p.viewers.join(p.caller(q))
		defer leave()
		a, err := v.ask(q.Context(), asked)
		if err != nil {
			refuse(w, err)
			return
		}
		b := a.plain
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(q) {
			h.Set("Content-Encoding", "gzip")
			b = a.gzip()
		}
		_, _ = w.Write(b) // no error handling: the client is gone
	}
}
