package arrowout_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
)

// serveTexts is serve with token texts: one letter per token, 256 for the end, and long texts from token 1000 on.
func serveTexts(t *testing.T, f *fakeRun) *arrowout.Server {
	t.Helper()
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(f), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetTokenText(func(dst []byte, id int32) []byte {
		switch {
		case id == 256:
			return append(dst, "<|endoftext|>"...)
		case id < 256:
			return append(dst, byte(id))
		case id < 1000:
			return dst
		}
		return append(dst, strings.Repeat("<", 1000)...)
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

// textsOf decodes the results of text or peek.
func textsOf(t *testing.T, answer string) (out []api.DocumentText) {
	t.Helper()
	for line := range strings.SplitSeq(answer, "\n") {
		if line == "" {
			continue
		}
		var text api.DocumentText
		if err := json.Unmarshal([]byte(line), &text); err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	return out
}

func documentOf(tokens ...int32) document.View {
	return document.View{Info: document.Info{Sequence: 1, Subject: "docs.x", Path: "a.txt"},
		Document: document.Document{Content: document.Content{Tokens: tokens}}}
}

func TestText_ReturnsTokensAndTexts(t *testing.T) {
	f := newFake(1, 2, 16)
	bad := document.View{Info: document.Info{Sequence: 3}, Document: document.Document{Skip: plan.SkipUndecodable},
		Problem: "INVALID_JSON: it is broken"}
	f.shown = map[uint64]document.View{1: documentOf('g', 0xe4, 0xc3, 0xa4, '"', 999, 256), 3: bad}
	c := dial(t, serveTexts(t, f))
	for _, tc := range []struct{ body, want string }{
		{`{"sequence":1}`, `0 of 7: [103 228 195 164 34 999 256] ["g" "\\xE4" "\\xC3" "\\xA4" "\"" "" "<|endoftext|>"] `},
		{`{"sequence":1,"start":5}`, `5 of 7: [999 256] ["" "<|endoftext|>"] `},
		{`{"sequence":1,"start":1,"tokens":2}`, `1 of 7: [228 195] ["\\xE4" "\\xC3"] `},
		{`{"sequence":1,"start":7}`, `7 of 7: [] [] `},
		{`{"sequence":1,"start":9007199254740991,"tokens":4096}`, `7 of 7: [] [] `},
		{`{"sequence":3}`, `0 of 0: [] [] undecodable INVALID_JSON: it is broken`},
	} {
		answer, err := act(c, "text", tc.body)
		if err != nil {
			t.Fatal(err)
		}
		got := textsOf(t, answer)
		if s := fmt.Sprintf("%d of %d: %v %q %s", got[0].Start, got[0].Total, got[0].Tokens, got[0].Texts,
			strings.TrimSpace(got[0].Skip+" "+got[0].Problem)); s != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.body, s, tc.want)
		}
	}
	if answer, err := act(c, "text", `{"sequence":1}`); err != nil || !strings.Contains(answer, `"path":"a.txt"`) {
		t.Errorf("where it came from is not reported: %s, %v", answer, err)
	}
	// A daemon without a tokenizer has no texts.
	if answer, err := act(dial(t, serve(t, f)), "text", `{"sequence":1}`); err != nil ||
		strings.Contains(answer, `"texts"`) || len(textsOf(t, answer)[0].Tokens) != 7 {
		t.Errorf("without a tokenizer: %s, %v", answer, err)
	}
}

// A result is bounded in tokens and in bytes for every document, and reports where it ends.
func TestText_ResultIsBounded(t *testing.T) {
	f := newFake(1, 2, 16)
	f.shown = map[uint64]document.View{2: documentOf(slices.Repeat([]int32{1000}, 5000)...)}
	c := dial(t, serveTexts(t, f))
	answer, err := act(c, "text", `{"sequence":50000}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := textsOf(t, answer)[0]; len(got.Tokens) != 4096 || got.Total != 50000 || len(got.Texts) != 4096 {
		t.Errorf("%d tokens of %d, %d texts", len(got.Tokens), got.Total, len(got.Texts))
	}
	// "<" a thousand times is 6,002 bytes of JSON.
	if answer, err = act(c, "text", `{"sequence":2}`); err != nil {
		t.Fatal(err)
	}
	if got := textsOf(t, answer)[0]; len(got.Tokens) != len(got.Texts) || len(got.Tokens) != (1<<20)/6003 ||
		len(answer) > 1<<20+4096 {
		t.Errorf("%d tokens and %d texts in %d bytes", len(got.Tokens), len(got.Texts), len(answer))
	}
}

func TestPeek_ReturnsUpcomingDocuments(t *testing.T) {
	one := dial(t, serveTexts(t, newFake(1, 2, 16)))
	mixed := dial(t, serveTexts(t, newMixed(1, 2, 16, runconfig.AttentionDocument)))
	for _, tc := range []struct {
		mixed bool
		body  string
		want  string // source, sequence, tokens
	}{
		{false, ``, "docs 5 5, docs 6 6, docs 7 7"},
		{false, `{"documents":1}`, "docs 5 5"},
		{false, `{"documents":2,"tokens":3}`, "docs 5 3, docs 6 3"},
		{true, `{"source":"web","documents":1}`, "web 5 5"},
	} {
		c := one
		want := strings.TrimSpace(tc.want)
		if tc.mixed {
			c = mixed
		}
		answer, err := act(c, "peek", tc.body)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range textsOf(t, answer) {
			got = append(got, strings.TrimSpace(fmt.Sprint(x.Source, " ", x.Sequence, " ", len(x.Tokens))))
		}
		if s := strings.Join(got, ", "); s != strings.ReplaceAll(want, ",  ", ", ") {
			t.Errorf("%s: got %s, want %s", tc.body, s, want)
		}
	}
}

func TestText_RefusesInvalidRequests(t *testing.T) {
	f := newMixed(1, 2, 16, runconfig.AttentionDocument)
	c := dial(t, serveTexts(t, f))
	for _, tc := range []struct{ action, body string }{
		{"text", ``}, {"text", `{"sequence":2}`}, {"text", `{"source":"none","sequence":2}`},
		{"text", `{"source":"web","sequence":0}`},
		{"text", `{"source":"web","sequence":9007199254740991}`}, // larger than a plan can represent
		{"text", `{"source":"web","sequence":2,"tokens":0}`}, {"text", `{"source":"web","sequence":2,"tokens":4097}`},
		{"text", `{"source":"web","sequence":2,"start":-1}`},
		{"text", `{"source":"web","sequence":2,"documents":1}`},
		{"peek", `{"documents":0}`}, {"peek", `{"documents":17}`}, {"peek", `{"documents":true}`}, {"peek", `{"sequence":1}`},
	} {
		_, err := act(c, tc.action, tc.body)
		if got := infoOf(t, err, codes.InvalidArgument).Reason; got != "INVALID_TICKET" {
			t.Errorf("%s %s: %s", tc.action, tc.body, got)
		}
	}
	f.lost = true
	_, err := act(c, "text", `{"source":"web","sequence":2}`)
	if got := infoOf(t, err, codes.DataLoss).Reason; got != "DOCUMENT_LOST" {
		t.Errorf("a released document: %s", got)
	}
}
