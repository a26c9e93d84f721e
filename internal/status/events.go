package status

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"loaderd/internal/access"
	"loaderd/internal/api"
	"loaderd/internal/event"
)

// Events are the newest things that happened to a run, of all daemons. Those of this daemon are what its log says:
// warnings and errors, and the lines that told names; those of others come as words.
type Events struct {
	daemon string

	mu   sync.Mutex
	all  []entry // oldest first
	next uint64  // number of the next own one
}

type entry struct {
	api.Event
	message string // of the log line, by which like ones are joined
	more    int    // like ones since
	own     uint64 // number among the daemon's own, from 1; 0 of another's
}

// NewEvents begins with none.
func NewEvents(daemon string) *Events { return &Events{daemon: daemon} }

// Handler passes records on to a log's own handler, and takes those that are events.
func (e *Events) Handler(next slog.Handler) slog.Handler { return handler{next, e, nil} }

// handler is a slog.Handler that listens in.
type handler struct {
	slog.Handler
	events *Events
	attrs  []slog.Attr
}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.Handler.Enabled(ctx, l)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.events.hear(r, h.attrs)
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler, h.attrs = h.Handler.WithAttrs(attrs), append(slices.Clip(h.attrs), attrs...)
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// nameless is the identity of callers without a name, in the log.
var nameless = access.Identity{}.String()

// together is within which time like events become one.
const together = 5 * time.Second

// hear takes in a line of the log.
func (e *Events) hear(r slog.Record, attrs []slog.Attr) {
	if r.Level < slog.LevelInfo {
		return
	}
	text, values := r.Message, map[string]string{}
	add := func(a slog.Attr) bool {
		v := a.Value.Resolve().String()
		switch values[a.Key] = v; a.Key {
		case event.Key, "do", "run", "part", "action", "role", "call", "method":
		default:
			text += fmt.Sprintf(", %s %s", strings.ReplaceAll(a.Key, "_", " "), v)
		}
		return true
	}
	for _, a := range attrs {
		add(a)
	}
	r.Attrs(add)
	l, message := lines[values[event.Key]], r.Message
	if values[event.Key] == event.Audit.Value.String() {
		if values["dry_run"] == "true" {
			return
		}
		l, message, values["by"] = audited[values["action"]], text, ""
		if who := values["identity"]; who != nameless {
			values["by"] = " by " + who
		}
		if source := values["source"]; source != "" && l.kind == "seal" {
			l.text = `Source "{source}" was sealed{by}`
		}
		if values["error"] != "" {
			l.text = "The action {action}{by} was refused: {error}"
		}
	}
	x := entry{Event: api.Event{Time: r.Time, Daemon: e.daemon, Kind: l.kind, Do: cmp.Or(values["do"], l.do)},
		message: message}
	switch {
	case r.Level >= slog.LevelError:
		x.Kind = "error"
	case r.Level >= slog.LevelWarn:
		x.Kind = "warning"
	case x.Kind == "":
		return
	}
	if told, ok := l.tell(values); ok {
		text = told
	}
	x.Text = excerpt(text)
	e.add(x, true)
}

// maxText bounds the text of an event, in bytes.
const maxText = 400

func excerpt(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}

func (e *Events) add(x entry, own bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.all); own && n > 0 { // many ranks come at the same moment
		if last := &e.all[n-1]; last.own > 0 && last.message == x.message && x.Time.Sub(last.Time) < together {
			e.next++
			last.more++
			last.own, last.Time = e.next, x.Time
			text, _, _ := strings.Cut(last.Text, more)
			last.Text = fmt.Sprintf("%s%s%d like it)", text, more, last.more)
			return
		}
	}
	if own {
		e.next++
		x.own = e.next
	}
	e.all = append(e.all, x)
	slices.SortStableFunc(e.all, func(a, b entry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Daemon, b.Daemon))
	})
	if len(e.all) > api.MaxEvents {
		e.all = slices.Delete(e.all, 0, len(e.all)-api.MaxEvents)
	}
}

const more = " (and "

// newest returns all events, the newest first.
func (e *Events) newest() []api.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]api.Event, 0, len(e.all))
	for _, x := range slices.Backward(e.all) {
		out = append(out, x.Event)
	}
	return out
}

// since returns this daemon's own events behind one, oldest first, and the number of the last.
func (e *Events) since(own uint64) (events []api.Event, last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.all {
		if x.own > own {
			events = append(events, x.Event)
		}
	}
	return events, e.next
}

// others takes in events of another daemon. One that was heard before is left out; one that has become many since takes
// its place.
func (e *Events) others(daemon string, events []api.Event) {
	for _, x := range events {
		x.Daemon = daemon
		message, _, _ := strings.Cut(x.Text, more)
		e.mu.Lock()
		i := slices.IndexFunc(e.all, func(y entry) bool {
			return y.own == 0 && y.Daemon == daemon && y.message == message && x.Time.Sub(y.Time).Abs() < together
		})
		if i >= 0 {
			e.all[i].Event = x
		}
		e.mu.Unlock()
		if i < 0 {
			e.add(entry{Event: x, message: message}, false)
		}
	}
}
