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

	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/internal/event"
)

// Events are the newest events of a run, from all daemons. Those of this daemon are derived from its log: warnings,
// errors, and the messages in lines and audited. Those of other daemons arrive in their heartbeats.
type Events struct {
	daemon string

	mu   sync.Mutex
	all  []entry // oldest first
	next uint64  // number of this daemon's next event
}

type entry struct {
	api.Event
	message string // of the log line; equal messages are merged
	more    int    // number of merged later events
	own     uint64 // number among this daemon's events, from 1; 0 if another daemon's
}

// NewEvents returns empty Events of a daemon.
func NewEvents(daemon string) *Events { return &Events{daemon: daemon} }

// Handler returns a log handler that passes records on to next and collects those that are events.
func (e *Events) Handler(next slog.Handler) slog.Handler { return handler{next, e, nil} }

// handler is a slog.Handler that also collects events.
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
var nameless = auth.Identity{}.String()

// together is the time within which equal events are merged.
const together = 5 * time.Second

// hear adds the event of a log record, if it is one.
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

// maxText is the maximum length of an event's text, in bytes.
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
	if n := len(e.all); own && n > 0 { // many ranks arrive at the same moment
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

// newest returns all events, newest first.
func (e *Events) newest() []api.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]api.Event, 0, len(e.all))
	for _, x := range slices.Backward(e.all) {
		out = append(out, x.Event)
	}
	return out
}

// since returns this daemon's events after number own, oldest first, and the number of the last event.
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

// others adds events of another daemon. It replaces an event that it already has, because later events may have been
// merged into it.
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
