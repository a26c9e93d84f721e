package cli

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"loaderd/internal/goldentest"
	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/deadletter"
	"loaderd/stream/server"
)

// What dead list, show and retry say.
func TestDeadGolden(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	letters := []listedLetter{
		{Letter: 7, Source: "math", Reason: "BAD_JSON", Problem: "payload is not JSON: \x1b[2J" + strings.Repeat(" very", 30), Sequence: 120, Subject: "docs.math", Time: at},
		{Letter: 8, Source: "web", Reason: "TOO_LARGE", Problem: "too many tokens", Sequence: 9, Subject: "docs.web.a", Time: at.Add(time.Minute), Retried: true},
	}
	reasons := map[string]int64{"BAD_JSON": 1200, "TOO_LARGE": 34, "BAD_TOKENS": 34}
	goldentest.Compare(t, "dead/list.txt", func(w io.Writer) error { return deadList{Total: 1268, Reasons: reasons, Letters: letters}.write(w) })
	letters = letters[:1]
	letters[0].Source = ""
	goldentest.Compare(t, "dead/list-one.txt", func(w io.Writer) error {
		return deadList{Total: 1, Reasons: map[string]int64{"BAD_JSON": 1}, Letters: letters}.write(w)
	})
	goldentest.Compare(t, "dead/list-none.txt", func(w io.Writer) error { return deadList{}.write(w) })

	l := deadletter.Letter{Letter: 7, Source: "math", Stream: "DOCS_math", Sequence: 120, Subject: "docs.math", Reason: "BAD_JSON", Problem: "it is \x07 broken", Time: at,
		Header: nats.Header{"X-Mine": {"a\nb", "c"}, "Content-Type": {"application/json"}}, Data: []byte("{\"text\":\t\"\x1b[31mä\nend")}
	goldentest.Compare(t, "dead/show.txt", func(w io.Writer) error { return writeLetter(w, l, false, false) })
	l.Data, l.Truncated, l.Source, l.Header = []byte("\xff\xfe\x00\x01 and more than a line of it"), []string{"headers", "payload of 99 bytes"}, "", nil
	goldentest.Compare(t, "dead/show-bytes.txt", func(w io.Writer) error { return writeLetter(w, l, true, false) })
	l.Data = []byte(strings.Repeat("ä", shownText))
	if got := payload(l.Data, false); !strings.Contains(got, "4.0 KiB more") || strings.Contains(got, `\x`) || len(got) > shownText+100 {
		t.Errorf("a long payload is shown in %d bytes: ...%s", len(got), got[len(got)-80:])
	}
	if got := payload(l.Data, true); got != string(l.Data)+"\n" {
		t.Errorf("all of it is shown in %d bytes", len(got))
	}
}

// Whatever a payload is, a terminal gets lines of printable characters.
func FuzzPayload(f *testing.F) {
	f.Add([]byte("text\x1b[2J"), false)
	f.Add([]byte("\xff\x00"), true)
	f.Fuzz(func(t *testing.T, data []byte, all bool) {
		for _, r := range payload(data, all) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is shown", r)
			}
		}
	})
}

// bad publishes documents that cannot be decoded, as any client of NATS does.
func (s *site) bad(messages ...stream.Message) {
	s.t.Helper()
	c := natstest.Config(s.t)
	c.URL = natstest.URLAs("nats://"+s.nats, s.dir, server.OperatorFile)
	store := natstest.Open(s.t, c)
	defer store.Close()
	natstest.Publish(s.t, store, messages...)
}

func (s *site) deadList(args ...string) (l deadList) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.does(append([]string{"dead", "list", "--json"}, args...)...)), &l); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// Dead letters are listed, shown, exported and published again, beside a daemon and without one.
func TestDead(t *testing.T) {
	s := newSite(t)
	stop := s.serve()
	if got := s.does("dead", "list"); got != "there are no such dead letters\n" {
		t.Errorf("without letters: %s", got)
	}
	broken := stream.Message{Subject: "docs.a", ContentType: stream.TypeJSON, Path: "a.json", Data: []byte(`{"text":"ä`)}
	s.bad(broken, broken, broken, stream.Message{Subject: "docs.b", ContentType: "image/png", Data: []byte("\x89PNG")})
	natstest.Soon(t, "the letters are there", func() bool { return s.deadList().Total == 4 })

	if l := s.deadList("--reason", "BAD_JSON", "-n", "2"); l.Total != 3 || len(l.Letters) != 2 || l.Letters[1].Subject != "docs.a" || l.Letters[1].Letter <= l.Letters[0].Letter {
		t.Errorf("letters of BAD_JSON: %+v", l)
	}
	if l := s.deadList("--since", "1ns"); l.Total != 0 {
		t.Errorf("letters of this nanosecond: %+v", l)
	}
	png := s.deadList("--reason", "BAD_CONTENT_TYPE").Letters[0]
	if out := s.does("dead", "show", strconv.FormatUint(png.Letter, 10)); !strings.Contains(out, "Content-Type: image/png") || !strings.Contains(out, "89 50 4e 47") {
		t.Errorf("show says %s", out)
	}
	var lines []exportedLetter
	for line := range strings.Lines(s.does("dead", "export")) {
		var l exportedLetter
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
		case l.Reason == "BAD_JSON" && l.Text != nil && *l.Text == string(broken.Data) && l.Headers.Get(stream.HeaderPath) == "a.json":
		case l.Reason == "BAD_CONTENT_TYPE" && l.Text == nil && *l.Base64 == "iVBORw==":
		default:
			t.Errorf("exported is %+v", l)
		}
	}

	mend := []string{"dead", "retry", "--reason", "BAD_JSON", "--edit", `test "$LOADERD_REASON" = BAD_JSON && cat && printf ' %s"}' "$LOADERD_SUBJECT"`}
	for i, want := range []string{"3 letters of stream DOCS_DEAD would be published again\n", "3 letters of stream DOCS_DEAD published again, as documents 5 to 7 of stream DOCS\n",
		"0 letters of stream DOCS_DEAD published again; 3 had been before\n"} {
		args := mend
		if i == 0 {
			args = append(args[:len(args):len(args)], "--dry-run")
		}
		if got := s.does(args...); got != want {
			t.Errorf("retry %d says %q, want %q", i, got, want)
		}
	}
	for _, l := range s.deadList().Letters {
		if l.Retried != (l.Reason == "BAD_JSON") {
			t.Errorf("letter %+v", l)
		}
	}
	if code, out, stderr := s.loaderd("dead", "retry", "--all", "--edit", "echo no >&2; exit 3"); code != exitFailed || !strings.Contains(stderr, "exit status 3: no") ||
		!strings.Contains(out, "0 letters of stream DOCS_DEAD published again; 3 had been before; 1 could not be") {
		t.Errorf("a command that fails: exit status %d: %s%s", code, out, stderr)
	}
	s.does("seal")
	if _, out, stderr := s.loaderd("dead", "retry", strconv.FormatUint(png.Letter, 10), "--header", "Content-Type=", "--edit", "echo text"); !strings.Contains(out, "1 letter of stream DOCS_DEAD published again, as document 8 of stream DOCS\n") ||
		!strings.Contains(stderr, "run default ends behind document 7 of stream DOCS: it reads none of these") {
		t.Errorf("behind a seal: %s%s", out, stderr)
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
		{[]string{"retry"}, exitUsage, "which letters?"}, {[]string{"retry", "7", "--all"}, exitUsage, "either"}, {[]string{"retry", "7", "--header", "Nats-Msg-Id=x"}, exitUsage, "none of the server's"}, {[]string{"show", "x"}, exitUsage, "want a number"},
		{[]string{"show", "9-3"}, exitUsage, "want a number"}, {[]string{"show", "99"}, exitFailed, "no such dead letter"},
		{[]string{"list", "--source", "math"}, exitFailed, "no source has letters"}, {[]string{"list", "-n", "-1"}, exitUsage, "0 (all)"},
	} {
		if code, _, stderr := s.loaderd(append([]string{"dead"}, c.args...)...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit status %d: %s", c.args, code, stderr)
		}
	}
}
