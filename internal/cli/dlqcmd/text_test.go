package dlqcmd

import (
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"loaderd/internal/goldentest"
	"loaderd/stream/deadletter"
)

// TestDeadGolden compares the output of dead list, show and retry with golden files.
func TestDeadGolden(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	letters := []listedLetter{
		{Letter: 7, Source: "math", Reason: "INVALID_JSON", Problem: "payload is not JSON: \x1b[2J" +
			strings.Repeat(" very", 30),
			Sequence: 120, Subject: "docs.math", Time: at},
		{Letter: 8, Source: "web", Reason: "TOO_LARGE", Problem: "too many tokens", Sequence: 9, Subject: "docs.web.a",
			Time: at.Add(time.Minute), Retried: true},
	}
	reasons := map[string]int64{"INVALID_JSON": 1200, "TOO_LARGE": 34, "BAD_TOKENS": 34}
	goldentest.Compare(t, "dlq/list.txt", func(w io.Writer) error {
		return deadList{Total: 1268, Reasons: reasons, Letters: letters}.write(w, false)
	})
	letters = letters[:1]
	letters[0].Source = ""
	goldentest.Compare(t, "dlq/list-one.txt", func(w io.Writer) error {
		return deadList{Total: 1, Reasons: map[string]int64{"INVALID_JSON": 1}, Letters: letters}.write(w, false)
	})
	goldentest.Compare(t, "dlq/list-none.txt", func(w io.Writer) error { return deadList{}.write(w, false) })

	l := deadletter.Letter{Letter: 7, Source: "math", Stream: "DOCS_math", Sequence: 120, Subject: "docs.math",
		Reason: "INVALID_JSON", Problem: "it is \x07 broken", Time: at,
		Header: nats.Header{"X-Mine": {"a\nb", "c"}, "Content-Type": {"application/json"}},
		Data:   []byte("{\"text\":\t\"\x1b[31mä\nend")}
	goldentest.Compare(t, "dlq/show.txt", func(w io.Writer) error { return writeLetter(w, l, false, false) })
	l.Data, l.Truncated, l.Source, l.Header = []byte("\xff\xfe\x00\x01 and more than a line of it"),
		[]string{"headers", "payload of 99 bytes"}, "", nil
	goldentest.Compare(t, "dlq/show-bytes.txt", func(w io.Writer) error { return writeLetter(w, l, true, false) })
	l.Data = []byte(strings.Repeat("ä", shownText))
	if got := payload(l.Data, false); !strings.Contains(got, "4.0 KiB more") || strings.Contains(got, `\x`) ||
		len(got) > shownText+100 {
		t.Errorf("output for a long payload has %d bytes: ...%s", len(got), got[len(got)-80:])
	}
	if got := payload(l.Data, true); got != string(l.Data)+"\n" {
		t.Errorf("output of the complete payload has %d bytes", len(got))
	}
}

// FuzzPayload checks that any payload is displayed as lines of printable characters.
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
