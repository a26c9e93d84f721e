package livepage

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
	// every is how often a page hears how things stand.
	every = time.Second
	// unread is how long a page may leave what it was sent unread. No page has a queue: it gets the newest event, and
	// those before it are left out.
	unread = 10 * time.Second
	// maxStreams bounds the open streams of events of a daemon.
	maxStreams = 1024
)

// event is what all pages of an identity are sent, as a server-sent event.
type event struct {
	plain []byte
	last  bool // the stream ends with it

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

// gzipHead begins a stream in gzip. What follows are blocks of deflate, which end nowhere.
var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// deflated are the blocks of the event. They refer to nothing before them and end on a byte: so one compression serves
// all pages, whatever each was sent before.
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
			panic(err) // a buffer takes everything
		}
		e.block = out.Bytes()
	})
	return e.block
}

// events serves the stream of events: status once a second, with what GET /api/status answers; problem where that is an
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
	if _, err := v.ask(q.Context(), status); err != nil { // as a status of HTTP, where the stream has not begun
		refuse(w, err)
		return
	}
	defer v.watch(p.closing)()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Accel-Buffering", "no") // nginx would collect events
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

// newest returns the newest event, nil while there is none, and what is closed when there is a newer one.
func (v *viewer) newest() (*event, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.event, v.changed
}

// watch has events made until what it returns is called, and everybody else's is.
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

// tell makes an event a second.
func (v *viewer) tell(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for told := (*answer)(nil); ; {
		a, _ := v.ask(ctx, question{status.action, every / 2}) // an answer of the last tick is too old
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
