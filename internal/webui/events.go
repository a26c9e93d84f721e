package webui

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"loaderd/loader/fault"
)

const (
	// every is the interval of status events.
	every = time.Second
	// unread is the write timeout of an event stream. Pages have no queues: a page receives the newest event, and older
	// ones are skipped.
	unread = 10 * time.Second
	// maxStreams is the maximum number of open event streams of a daemon.
	maxStreams = 1024
)

// event is the server-sent event that all pages of an identity receive.
type event struct {
	plain []byte
	last  bool // the stream ends after it

	squeeze sync.Once
	block   []byte
}

func newEvent(a *answer) *event {
	name, data, last := "status", a.plain, false
	if a.err != nil {
		code := statusCode(a.err)
		name, data, last = "problem", append(problem(a.err), '\n'), code == http.StatusUnauthorized ||
			code == http.StatusForbidden
	}
	return &event{plain: []byte("event: " + name + "\ndata: " + string(data) + "\n"), last: last}
}

// gzipHead is the gzip header of a stream. Deflate blocks follow; none of them is marked as the last.
var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// deflated returns the event as deflate blocks. They do not refer to earlier data and end at a byte boundary, so that
// one compression serves all pages, independent of the events that each received before.
func (e *event) deflated() []byte {
	e.squeeze.Do(func() {
		var out bytes.Buffer
		z, err := flate.NewWriter(&out, flate.DefaultCompression)
		if err == nil {
			_, err = z.Write(e.plain)
		}
		if err == nil {
			err = z.Flush()
		}
		if err != nil {
			panic(err) // a buffer does not fail
		}
		e.block = out.Bytes()
	})
	return e.block
}

// events serves the event stream: status once per second, with the result of GET /api/status, or problem with its
// error.
func (p *Page) events(w http.ResponseWriter, q *http.Request) {
	defer p.streams.Add(-1)
	if p.streams.Add(1) > maxStreams {
		refuse(w, &fault.Error{Reason: limited, Message: "1,024 pages are open at this daemon",
			Do: "close some, or look at another daemon of the run"})
		return
	}
	v, leave := p.viewers.join(p.caller(q))
	defer leave()
	if _, err := v.ask(q.Context(), status); err != nil { // an HTTP status, before the stream starts
		refuse(w, err)
		return
	}
	defer v.watch(p.closing)()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Accel-Buffering", "no") // else nginx would buffer events
	out := http.NewResponseController(w)
	send := func(b []byte) bool {
		if err := out.SetWriteDeadline(time.Now().Add(unread)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		_, err := w.Write(b)
		return err == nil && out.Flush() == nil
	}
	squeezed := takesGzip(q)
	if squeezed {
		h.Set("Content-Encoding", "gzip")
		if !send(gzipHead) {
			return
		}
	}
	for sent := (*event)(nil); sent == nil || !sent.last; {
		e, changed := v.newest()
		if e == nil || e == sent {
			select {
			case <-changed:
				continue
			case <-q.Context().Done():
				return
			case <-p.closing.Done():
				return
			}
		}
		b := e.plain
		if squeezed {
			b = e.deflated()
		}
		if !send(b) {
			return
		}
		sent = e
	}
}

// newest returns the newest event, nil if none exists, and a channel that is closed when a newer one exists.
func (v *viewer) newest() (*event, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.event, v.changed
}

// watch generates events until all callers have called the functions that it returned.
func (v *viewer) watch(closing context.Context) (leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watched++; v.watched == 1 {
		var ctx context.Context
		ctx, v.stop = context.WithCancel(closing)
		v.event = nil
		go v.tell(ctx)
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.watched--; v.watched == 0 {
			v.stop()
		}
	}
}

// tell generates an event per second.
func (v *viewer) tell(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for told := (*answer)(nil); ; {
		a, _ := v.ask(ctx, question{status.action, every / 2}) // the result of the previous tick is too old
		v.mu.Lock()
		if ctx.Err() == nil && a != nil && a != told {
			told, v.event = a, newEvent(a)
			close(v.changed)
			v.changed = make(chan struct{})
		}
		v.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
