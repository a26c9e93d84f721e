package livepage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"loaderd/internal/access"
)

// question is what all pages of an identity ask for, with the same answer: it is made once for all of them.
type question struct {
	action string
	fresh  time.Duration // how long an answer serves
}

var (
	status  = question{"status", time.Second}
	history = question{"history", 2 * time.Second}
)

// askFor bounds how long an answer may take to make. It is asked for all who wait, so that none of them can give it up.
const askFor = 15 * time.Second

// answer is what a question was answered with. It does not change.
type answer struct {
	made time.Time
	body // JSON, a line
	err  error
}

// viewers are the identities that look at this moment. The memory of one is given up when nobody looks any more: tokens
// are made up by whoever calls.
type viewers struct {
	asker Asker
	mu    sync.Mutex
	all   map[string]*viewer
}

// viewer is all who call as one identity.
type viewer struct {
	asker Asker
	from  access.Caller // whoever came first
	users int           // under the mutex of viewers

	mu      sync.Mutex
	latest  map[string]*answer
	asking  map[string]chan struct{} // closed when an answer that is being made is there
	watched int                      // streams of events that are open
	event   *event                   // the newest
	changed chan struct{}            // closed when there is a newer one
	stop    context.CancelFunc       // ends the making of events
}

// join returns who calls as the identity of from, and what to call when it is not needed any more.
func (v *viewers) join(from access.Caller) (*viewer, func()) {
	h := sha256.New()
	fmt.Fprintln(h, from.Local()) // where no token is asked for, callers of this machine may do more than others
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

// ask returns the answer to a question, one that is no older than it may be.
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

// make has an answer made.
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

// line is a document as one line: an event is cut at the ends of lines.
func line(b []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return append(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), '\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// shared serves the answer to a question.
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
		_, _ = w.Write(b) // whoever asked has gone: there is nobody to tell
	}
}
