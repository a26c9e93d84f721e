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
	// eventInterval is the interval of status events.
	eventInterval = time.Second
	// eventWriteTimeout is the write timeout of an event stream. Pages have no queues: a page receives the newest event,
	// and older ones are skipped.
	eventWriteTimeout = 10 * time.Second
	// maxEventStreams is the maximum number of open event streams of a daemon.
	maxEventStreams = 1024
)

// event is the server-sent event that all pages of an identity receive.
type event struct {
	plain []byte
	final bool // the stream ends after it

	deflateOnce   sync.Once
	deflateBlocks []byte
}

func newEvent(a *actionResult) *event {
	name, data, last := "status", a.plain, false
	if a.err != nil {
		code := statusCode(a.err)
		name, data, last = "problem", append(encodeError(a.err), '\n'), code == http.StatusUnauthorized ||
			code == http.StatusForbidden
	}
	return &event{plain: []byte("event: " + name + "\ndata: " + string(data) + "\n"), final: last}
}

// gzipHeader is the gzip header of a stream. Deflate blocks follow; none of them is marked as the last.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// deflate returns the event as deflate blocks. They do not refer to earlier data and end at a byte boundary, so that
// one compression serves all pages, independent of the events that each received before.
func (e *event) deflate() []byte {
	e.deflateOnce.Do(func() {
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
		e.deflateBlocks = out.Bytes()
	})
	return e.deflateBlocks
}

// serveEvents serves the event stream: status once per second, with the result of GET /api/status, or problem with its
// error.
func (p *Page) serveEvents(w http.ResponseWriter, q *http.Request) {
	defer p.streams.Add(-1)
	if p.streams.Add(1) > maxEventStreams {
		writeError(w, &fault.Error{Reason: limited, Message: "1,024 pages are open at this daemon",
			Advice: "close some, or look at another daemon of the run"})
		return
	}
	v, leave := p.viewers.acquire(p.caller(q))
	defer leave()
	if _, err := v.fetch(q.Context(), statusAction); err != nil { // an HTTP status, before the stream starts
		writeError(w, err)
		return
	}
	defer v.subscribe(p.lifetime)()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Accel-Buffering", "no") // else nginx would buffer events
	out := http.NewResponseController(w)
	send := func(b []byte) bool {
		if err := out.SetWriteDeadline(time.Now().Add(eventWriteTimeout)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			return false
		}
		_, err := w.Write(b)
		return err == nil && out.Flush() == nil
	}
	squeezed := acceptsGzip(q)
	if squeezed {
		h.Set("Content-Encoding", "gzip")
		if !send(gzipHeader) {
			return
		}
	}
	for sent := (*event)(nil); sent == nil || !sent.final; {
		e, changed := v.newestEvent()
		if e == nil || e == sent {
			select {
			case <-changed:
				continue
			case <-q.Context().Done():
				return
			case <-p.lifetime.Done():
				return
			}
		}
		b := e.plain
		if squeezed {
			b = e.deflate()
		}
		if !send(b) {
			return
		}
		sent = e
	}
}

// newestEvent returns the newest event, nil if none exists, and a channel that is closed when a newer one exists.
func (v *viewer) newestEvent() (*event, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.event, v.changed
}

// subscribe generates events until all callers have called the functions that it returned.
func (v *viewer) subscribe(closing context.Context) (leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.subscribers++; v.subscribers == 1 {
		var ctx context.Context
		ctx, v.stop = context.WithCancel(closing)
		v.event = nil
		go v.generateEvents(ctx)
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.subscribers--; v.subscribers == 0 {
			v.stop()
		}
	}
}

// generateEvents generates an event per second.
func (v *viewer) generateEvents(ctx context.Context) {
	tick := time.NewTicker(eventInterval)
	defer tick.Stop()
	for told := (*actionResult)(nil); ; {
		// the result of the previous tick is too old
		a, _ := v.fetch(ctx, cachedAction{statusAction.action, eventInterval / 2})
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
