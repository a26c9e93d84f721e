package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
)

// peek shows the next documents of a daemon's run, with their published texts.
func TestPeek_ShowsNextDocuments(t *testing.T) {
	s := newSite(t)
	s.serve("--set", "serve.ahead=2")
	folder := t.TempDir()
	for name, text := range map[string]string{"1.txt": "Hello world.\nThis is \x1b[31mred\x1b[0m and long enough to stay.",
		"2.txt": "Another one."} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "3.jsonl"),
		[]byte(strings.Repeat(`{"text":"One more of those."}`+"\n", 6000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.does("publish", folder)
	var texts []api.DocumentText
	for line := range strings.Lines(s.does("peek", "-n", "2", "--tokens", "3", "--json")) {
		var text api.DocumentText
		if err := json.Unmarshal([]byte(line), &text); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if len(texts) != 2 || strings.Join(texts[1].Texts, "") != "One more of" || texts[1].Sequence != texts[0].Sequence+1 ||
		texts[1].Total != 6 {
		t.Errorf("the next are %+v", texts)
	}
	client, err := flightclient.Open("grpc://"+s.flight, flightclient.Options{DataDir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if got, err := client.Text(t.Context(), "", "", 1, 2, 3); err != nil || strings.Join(got.Texts, "|") != ".|\n|This" ||
		got.Start != 2 || !strings.HasSuffix(got.Path, "1.txt") {
		t.Errorf("from token 2 on document 1 is %+v, %v", got, err)
	}
	if _, err := client.Text(t.Context(), "", "", 1<<40, 0, 0); flightclient.Reason(err) != "DOCUMENT_LOST" {
		t.Errorf("a document that does not exist: %v", err)
	}
	if out := s.does("peek", "-n", "1"); !strings.Contains(out, "One| more| of| those|.|<|endoftext|>") {
		t.Errorf("output of peek: %s", out)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-n", "17"}, command.ExitUsage, "1 to 16"}, {[]string{"--tokens", "0"}, command.ExitUsage, "1 to 4096"},
		{[]string{"--source", "math"}, command.ExitFailed, "INVALID_TICKET"},
	} {
		if code, _, stderr := s.loaderd(append([]string{"peek"}, c.args...)...); code != c.code ||
			!strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit status %d: %s", c.args, code, stderr)
		}
	}
}
