package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/server"
)

// letterList is the JSON of loaderd dlq list.
type letterList struct {
	Total   int64
	Letters []struct {
		Letter          uint64
		Reason, Subject string
		Retried         bool
	}
}

// exportedJSON is one line of the output of loaderd dlq export.
type exportedJSON struct {
	Reason       string
	Headers      nats.Header
	Text, Base64 *string
}

// bad publishes documents that cannot be decoded, as any NATS client can.
func (s *site) bad(messages ...stream.Message) {
	s.t.Helper()
	c := natstest.Config(s.t)
	c.URL = natstest.URLWithToken("nats://"+s.nats, s.dir, server.OperatorFile)
	store := natstest.Open(s.t, c)
	defer store.Close()
	natstest.Publish(s.t, store, messages...)
}

func (s *site) deadList(args ...string) (l letterList) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.does(append([]string{"dlq", "list", "--json"}, args...)...)), &l); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// Dead letters are listed, shown, exported and republished, both with a running daemon and without one.
func TestDLQ_ListShowExportRetry(t *testing.T) {
	s := newSite(t)
	stop := s.serve()
	if got := s.does("dlq", "list"); got != "no matching dead letters\n" {
		t.Errorf("without letters: %s", got)
	}
	broken := stream.Message{Subject: "docs.a", ContentType: stream.TypeJSON, Path: "a.json", Data: []byte(`{"text":"ä`)}
	s.bad(broken, broken, broken, stream.Message{Subject: "docs.b", ContentType: "image/png", Data: []byte("\x89PNG")})
	natstest.Eventually(t, "the letters are stored", func() bool { return s.deadList().Total == 4 })

	if l := s.deadList("--reason", "INVALID_JSON", "-n", "2"); l.Total != 3 || len(l.Letters) != 2 ||
		l.Letters[1].Subject != "docs.a" || l.Letters[1].Letter <= l.Letters[0].Letter {
		t.Errorf("letters of INVALID_JSON: %+v", l)
	}
	if l := s.deadList("--since", "1ns"); l.Total != 0 {
		t.Errorf("letters of this nanosecond: %+v", l)
	}
	png := s.deadList("--reason", "BAD_CONTENT_TYPE").Letters[0]
	if out := s.does("dlq", "show", strconv.FormatUint(png.Letter, 10)); !strings.Contains(out,
		"Content-Type: image/png") || !strings.Contains(out, "89 50 4e 47") {
		t.Errorf("output of show: %s", out)
	}
	var shown exportedJSON
	if err := json.Unmarshal([]byte(s.does("dlq", "show", strconv.FormatUint(png.Letter, 10), "--json")),
		&shown); err != nil ||
		shown.Reason != "BAD_CONTENT_TYPE" || shown.Base64 == nil || *shown.Base64 != "iVBORw==" {
		t.Errorf("JSON of show: %+v, %v", shown, err)
	}
	var lines []exportedJSON
	for line := range strings.Lines(s.does("dlq", "export")) {
		var l exportedJSON
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 4 {
		t.Fatalf("%d letters are exported", len(lines))
	}
	for _, l := range lines {
		switch {
		case l.Reason == "INVALID_JSON" && l.Text != nil && *l.Text == string(broken.Data) &&
			l.Headers.Get(stream.HeaderPath) == "a.json":
		case l.Reason == "BAD_CONTENT_TYPE" && l.Text == nil && *l.Base64 == "iVBORw==":
		default:
			t.Errorf("exported is %+v", l)
		}
	}

	mend := []string{"dlq", "retry", "--reason", "INVALID_JSON", "--edit",
		`test "$LOADERD_REASON" = INVALID_JSON && cat && printf ' %s"}' "$LOADERD_SUBJECT"`}
	for i, want := range []string{"3 letters of stream DOCS_DLQ would be published again\n",
		"3 letters of stream DOCS_DLQ published again, as documents 5 to 7 of stream DOCS\n",
		"0 letters of stream DOCS_DLQ published again; 3 already published\n"} {
		args := mend
		if i == 0 {
			args = append(args[:len(args):len(args)], "--dry-run")
		}
		if got := s.does(args...); got != want {
			t.Errorf("output of retry %d: %q, want %q", i, got, want)
		}
	}
	for _, l := range s.deadList().Letters {
		if l.Retried != (l.Reason == "INVALID_JSON") {
			t.Errorf("letter %+v", l)
		}
	}
	if code, out, stderr := s.loaderd("dlq", "retry", "--all", "--edit",
		"echo no >&2; exit 3"); code != command.ExitFailed || !strings.Contains(stderr, "exit status 3: no") ||
		!strings.Contains(out, "0 letters of stream DOCS_DLQ published again; 3 already published; 1 failed") {
		t.Errorf("a command that fails: exit status %d: %s%s", code, out, stderr)
	}
	s.does("seal")
	if _, out, stderr := s.loaderd("dlq", "retry", strconv.FormatUint(png.Letter, 10), "--header", "Content-Type=",
		"--edit", "echo text"); !strings.Contains(out,
		"1 letter of stream DOCS_DLQ published again, as document 8 of stream DOCS\n") ||
		!strings.Contains(stderr, "run default ends at document 7 of stream DOCS: it reads none of these") {
		t.Errorf("after a seal: %s%s", out, stderr)
	}
	stop()
	if l := s.deadList(); l.Total != 4 { // the folder itself
		t.Errorf("without a daemon: %+v", l)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"retry"}, command.ExitUsage, "no letters selected"}, {[]string{"retry", "7", "--all"}, command.ExitUsage,
			"either"}, {[]string{"retry", "7", "--header", "Nats-Msg-Id=x"}, command.ExitUsage, "no header of the server"},
		{[]string{"show", "x"}, command.ExitUsage, "want a number"},
		{[]string{"show", "9-3"}, command.ExitUsage, "want a number"}, {[]string{"show", "99"}, command.ExitFailed,
			"no such dead letter"},
		{[]string{"list", "--source", "math"}, command.ExitFailed, "no source has letters"},
		{[]string{"list", "-n", "-1"}, command.ExitUsage, "0 (all)"},
	} {
		if code, _, stderr := s.loaderd(append([]string{"dlq"}, c.args...)...); code != c.code ||
			!strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit status %d: %s", c.args, code, stderr)
		}
	}
}
