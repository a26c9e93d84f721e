package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// logged formats a record as text: its level and message, then KEY=VALUE.
func logged(r slog.Record) string {
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s=%v", a.Key, a.Value)
		return true
	})
	return text
}

// recorder is a slog.Handler that passes records on as text.
type recorder struct {
	slog.Handler
	lines chan string
}

func (r recorder) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r recorder) Handle(_ context.Context, record slog.Record) error {
	r.lines <- logged(record)
	return nil
}

// Lines as nats-server writes them: the format with the client as prefix, and its values. The log has the client in
// keys and gives advice; other lines are logged unchanged.
func TestServerLog_NamesClientAndAdvice(t *testing.T) {
	const client = `10.0.0.7:5015 - cid:7 - `
	const named = client + `"v1.31.0:go:crawl - 100%d \"a\"" - "DOCUMENTS/user:producer" - `
	who := `; client=10.0.0.7:5015; name=v1.31.0:go:crawl - 100%d "a"; account=DOCUMENTS; user=producer`
	for _, tc := range []struct {
		name, format string
		values       []any
		want         string // prefix of the line
	}{
		{"wrong token", client + "authentication error", nil,
			"ERROR NATS client refused, wrong user or token; event=nats.client_refused; client=10.0.0.7:5015; do="},
		{"wrong user", client + "%v - %s", []any{"authentication error", `User "eve"`},
			"ERROR NATS client refused, wrong user or token; event=nats.client_refused; client=10.0.0.7:5015; user=eve; do="},
		{"subject to publish", named + "Publish Violation - Subject %q", []any{"plan.run"},
			"ERROR NATS client may not publish to this subject; event=nats.permission_denied" + who + "; subject=plan.run; do="},
		{"subject to subscribe", named + `Subscription Violation - Subject "a>", Queue: "q", SID 3`, nil,
			"ERROR NATS client may not subscribe to this subject; event=nats.permission_denied" + who + "; subject=a>; do="},
		{"large message", named + "%s: %d vs %d", []any{"maximum payload exceeded", 9, 5},
			"ERROR NATS client disconnected, its message is too large; event=nats.message_too_large" + who +
				"; bytes=9; max_bytes=5; do="},
		{"too many", "%s - %s%s", []any{client[:len(client)-3],
			"maximum connections exceeded - Account:DOCUMENTS", " - user:producer"},
			"ERROR NATS client refused, too many connections; event=nats.client_refused; client=10.0.0.7:5015; " +
				"account=DOCUMENTS; user=producer; do="},
		{"TLS", client + "TLS handshake error: %v%s", []any{"remote error: tls: bad certificate", ""},
			"ERROR TLS handshake with a NATS client failed; event=tls.handshake_failed; client=10.0.0.7:5015; " +
				"error=remote error: tls: bad certificate; do="},
		{"TLS of a route", "10.0.0.8:6222 - rid:3 - TLS %s handshake error: %v%s", []any{"route", "EOF", ""},
			"ERROR TLS handshake with a cluster member failed; event=tls.handshake_failed; member=10.0.0.8:6222; " +
				"error=EOF; do="},
		{"route", "Error trying to connect to route (attempt %v): %v", []any{12,
			"dial tcp 10.0.0.8:6222: connect: connection refused"},
			"ERROR cluster member is out of reach; event=cluster.member_unreachable; attempt=12; error=dial tcp " +
				"10.0.0.8:6222: connect: connection refused; do="},
		{"disk", "JetStream failed to store a msg on stream '%s > %s': %v", []any{"DOCUMENTS", "DOCS", "input/output error"},
			"ERROR NATS server cannot write a stream; event=nats.write_failed; account=DOCUMENTS; stream=DOCS; " +
				"error=input/output error; do="},
		{"full disk", "JetStream out of %s resources, will be DISABLED", []any{"File"},
			"ERROR NATS server stopped writing, the disk is full; event=nats.write_failed; do="},
		{"limits", "JetStream account limits exceeded for '%s': %s", []any{"DOCUMENTS", "resource limits exceeded"},
			"ERROR NATS server refused messages, the limit of the account is reached; event=nats.messages_refused; " +
				"account=DOCUMENTS; " +
				"error=resource limits exceeded; do="},
		{"quorum", "JetStream cluster stream '%s > %s' has NO quorum, stalled", []any{"LOADERD", "PLAN_run"},
			"ERROR stream has no quorum and cannot be written; event=stream.no_quorum; account=LOADERD; stream=PLAN_run; do="},
		{"raft", "RAFT [yrzKKRBu - S-R3F-1] Falling behind in health check, commit %d != applied %d", []any{9, 2},
			"ERROR cluster member lags behind; event=cluster.member_lagging; group=S-R3F-1; state=Falling behind in health " +
				"check, commit 9 != applied 2; do="},
		{"other, of a client", named + "read error: %v", []any{"EOF"}, "ERROR 10.0.0.7:5015 - cid:7 - "},
		{"other", "Stream restore failed due to %v", []any{"EOF"}, "ERROR Stream restore failed due to EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lines := make(chan string, 1)
			l := &serverLog{log: slog.New(recorder{slog.NewTextHandler(&bytes.Buffer{}, nil), lines})}
			l.Errorf(tc.format, tc.values...)
			if got := <-lines; !strings.HasPrefix(got, tc.want) {
				t.Errorf("logged %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		lines := make(chan string, 1)
		l := &serverLog{log: slog.New(recorder{slog.NewTextHandler(&bytes.Buffer{}, nil), lines})}
		l.Noticef(named+"Slow Consumer %s: WriteDeadline of %v exceeded with %d chunks of %d total bytes.",
			"Detected", 10*time.Second, 3, 99)
		want := "WARN NATS client disconnected, it reads too slowly; event=nats.slow_consumer" + who +
			"; limit=WriteDeadline of 10s; do="
		if got := <-lines; !strings.HasPrefix(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	})
}

// The log of a real server names a client with a wrong token by its address.
func TestServerLog_WrongToken(t *testing.T) {
	lines := make(chan string, 1000)
	log := slog.New(recorder{slog.NewTextHandler(&bytes.Buffer{}, nil), lines})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxPayload: 1 << 20}, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := nats.Connect(s.URL(), nats.UserInfo("producer", "producer_wrong")); err == nil {
		t.Fatal("a client with a wrong token is let in")
	}
	for {
		select {
		case line := <-lines:
			if !strings.HasPrefix(line, "ERROR ") {
				continue
			}
			for _, part := range []string{"NATS client refused", "client=127.0.0.1:", "user=producer",
				"do=give the client producer.token"} {
				if !strings.Contains(line, part) {
					t.Errorf("no %q in %q", part, line)
				}
			}
			if strings.Contains(line, "producer_wrong") {
				t.Errorf("the token is logged: %q", line)
			}
			return
		case <-ctx.Done():
			t.Fatal("the refusal is not logged")
		}
	}
}

// A line has each key once, with a value, whatever name a client sends.
func FuzzTranslate(f *testing.F) {
	f.Add(`10.0.0.7:5015 - cid:7 - "v1:go:x - %d" - "DOCUMENTS/user:producer" - Publish Violation - Subject %q`, "a - b")
	f.Add("%s", "10.0.0.7:5015 - cid:7 - maximum connections exceeded - Account:A - user:b")
	f.Add("authentication error - User %q", `"`)
	f.Fuzz(func(t *testing.T, format, value string) {
		message, keys, known := translate(format, []any{value})
		if known != (message != "") || known && len(keys)%2 != 1 {
			t.Errorf("translate = %q, %q, %v", message, keys, known)
		}
		if known {
			keys = keys[1:] // behind the event
		}
		seen := map[any]bool{}
		for i := 0; i < len(keys); i += 2 {
			if seen[keys[i]] {
				t.Errorf("key %v twice in %q", keys[i], keys)
			}
			seen[keys[i]] = true
		}
	})
}
