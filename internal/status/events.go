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

	mu         sync.Mutex
	entries    []entry // oldest first
	lastNumber uint64  // number of this daemon's next event
}

type entry struct {
	api.Event
	message     string // of the log line; equal messages are merged
	merged      int    // number of merged later events
	localNumber uint64 // number among this daemon's events, from 1; 0 if another daemon's
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
	h.events.record(r, h.attrs)
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

// anonymousName is the identity of callers without a name, in the log.
var anonymousName = auth.Identity{}.String()

// mergeWindow is the time within which equal events are merged.
const mergeWindow = 5 * time.Second

// record adds the event of a log record, if it is one.
func (e *Events) record(r slog.Record, attrs []slog.Attr) {
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
	l, message := eventTemplates[values[event.Key]], r.Message
	if values[event.Key] == event.Audit.Value.String() {
		if values["dry_run"] == "true" {
			return
		}
		l, message, values["by"] = auditTemplates[values["action"]], text, ""
		if who := values["identity"]; who != anonymousName {
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
	if told, ok := l.render(values); ok {
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
	if n := len(e.entries); own && n > 0 { // many ranks arrive at the same moment
		if last := &e.entries[n-1]; last.localNumber > 0 && last.message == x.message && x.Time.Sub(last.Time) < mergeWindow {
			e.lastNumber++
			last.merged++
			last.localNumber, last.Time = e.lastNumber, x.Time
			text, _, _ := strings.Cut(last.Text, mergedMark)
			last.Text = fmt.Sprintf("%s%s%d like it)", text, mergedMark, last.merged)
			return
		}
	}
	if own {
		e.lastNumber++
		x.localNumber = e.lastNumber
	}
	e.entries = append(e.entries, x)
	slices.SortStableFunc(e.entries, func(a, b entry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Daemon, b.Daemon))
	})
	if len(e.entries) > api.MaxEvents {
		e.entries = slices.Delete(e.entries, 0, len(e.entries)-api.MaxEvents)
	}
}

const mergedMark = " (and "

// newest returns all events, newest first.
func (e *Events) newest() []api.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]api.Event, 0, len(e.entries))
	for _, x := range slices.Backward(e.entries) {
		out = append(out, x.Event)
	}
	return out
}

// localSince returns this daemon's events after number own, oldest first, and the number of the last event.
func (e *Events) localSince(own uint64) (events []api.Event, last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.entries {
		if x.localNumber > own {
			events = append(events, x.Event)
		}
	}
	return events, e.lastNumber
}

// addRemote adds events of another daemon. It replaces an event that it already has, because later events may have been
// merged into it.
func (e *Events) addRemote(daemon string, events []api.Event) {
	for _, x := range events {
		x.Daemon = daemon
		message, _, _ := strings.Cut(x.Text, mergedMark)
		e.mu.Lock()
		i := slices.IndexFunc(e.entries, func(y entry) bool {
			return y.localNumber == 0 && y.Daemon == daemon && y.message == message && x.Time.Sub(y.Time).Abs() < mergeWindow
		})
		if i >= 0 {
			e.entries[i].Event = x
		}
		e.mu.Unlock()
		if i < 0 {
			e.add(entry{Event: x, message: message}, false)
		}
	}
}
