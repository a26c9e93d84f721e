package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/ledger"
	"loaderd/internal/natstest"
)

// outputFails expects a command to report that a write to standard output failed, and to exit with the status of a
// failure.
func outputFails(t *testing.T, stdin string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	if code := Run(t.Context(), args, strings.NewReader(stdin), fullWriter{}, &said); code != command.ExitFailed ||
		!strings.Contains(said.String(), errWrite.Error()) {
		t.Errorf("%v: exit status %d: %s", args, code, said.String())
	}
}

// TestCommands_FailOnFullDisk checks that commands fail with an error if they cannot write their output completely.
func TestCommands_FailOnFullDisk(t *testing.T) {
	lengths := writeFile(t, "lengths", []byte("5\n9\n"))
	const line = `{"id": "a", "text": "b"}` + "\n"
	for _, x := range []struct {
		stdin string
		args  []string
	}{
		{"", []string{"--help"}},
		{"", []string{"serve", "--help"}},
		{"", []string{"--version"}},
		{"", []string{"version"}},
		{"", []string{"version", "--json"}},
		{"", []string{"completion", "bash"}},
		{"", []string{"serve", "--print-config"}},
		{"", []string{"gen-lengths", "--dist", "list"}},
		{"", []string{"gen-lengths", "--dist", "code", "-n", "3"}},
		{"", []string{"simulate", "--method", "concat", "--length", "8", lengths}},
		{"", []string{"compare", "--methods", "concat", "--length", "8", "--out", t.TempDir(), lengths}},
		{line, []string{"tokenize", "--tokenizer", "gpt2"}},
		{"", []string{"tokenize", "--tokenizer", "gpt2", "--fingerprint"}},
	} {
		outputFails(t, x.stdin, x.args...)
	}
	for _, args := range [][]string{nil, {"--json"}} {
		outputFails(t, "", append([]string{"publish", "--daemon", natstest.URL(documentServer(t)),
			corpusFolder(t, map[string]string{"a.txt": "a"})}, args...)...)
	}
}

// fullDisk checks the same for the commands that query a daemon.
func (s *site) fullDisk(t *testing.T) {
	flight := []string{"--daemon", s.dir}
	for _, how := range [][]string{{"--step", "2"}, {"--step", "2", "--documents"}, {"--sequence", "1"},
		{"--find", "nothing"}} {
		for format := range ledger.Formats {
			outputFails(t, "", append(append([]string{"ledger", "--format", format}, how...), flight...)...)
		}
	}
	outputFails(t, "", append([]string{"ledger", "--step", "2", "--text"}, flight...)...)
	outputFails(t, "", append([]string{"seal"}, flight...)...)
	outputFails(t, "", append(append([]string{"run", "audit"}, s.settings()...), "--run", "whole")...)
	outputFails(t, "", append(append([]string{"run", "fork"}, s.settings()...), "--run", "whole", "--step", "3", "--new",
		"unsaid")...)
}

func writeFile(tb testing.TB, name string, data []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
	return path
}
