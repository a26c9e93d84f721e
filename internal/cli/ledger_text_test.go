package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
)

// ledgerText compares the texts that the ledger shows with the documents. files maps a path to its text.
func (s *site) ledgerText(t *testing.T, files map[string]string) {
	var page struct {
		Rows [][]struct {
			Sequence      uint64
			Start, Length int
			Text          string
		}
		Documents []struct {
			Sequence uint64
			Path     string
		}
	}
	if err := json.Unmarshal([]byte(s.does("ledger", "--step", "2", "--text", "--json")), &page); err != nil {
		t.Fatal(err)
	}
	text := map[uint64]string{}
	for _, d := range page.Documents {
		text[d.Sequence] = files[d.Path] + "<|endoftext|>"
	}
	pieces := 0
	for _, row := range page.Rows {
		for _, p := range row {
			pieces++
			whole := text[p.Sequence]
			if p.Text == "" || p.Start == 0 && !strings.HasPrefix(whole, p.Text) || !strings.Contains(whole, p.Text) {
				t.Errorf("piece %d:%d+%d is %q of %q", p.Sequence, p.Start, p.Length, p.Text, whole)
			}
		}
	}
	table := s.does("ledger", "--step", "2", "--text")
	if n := strings.Count(table, "This is document"); n < pieces {
		t.Errorf("%d texts for %d pieces: %s", n, pieces, table)
	}
	for _, part := range []string{"\nrow 3\n", " more ... ", "docs.files  "} {
		if !strings.Contains(table, part) {
			t.Errorf("the table lacks %q: %s", part, table)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--step", "2", "--text", "--format", "arrow"}, command.ExitUsage, "table or json"},
		{[]string{"--find", "x", "--text"}, command.ExitUsage, "text"},
		{[]string{"--step", "2", "--text", "--tokenizer", "cl100k_base"}, command.ExitFailed, "--tokenizer"},
		{[]string{"--step", "2", "--text", "--tokenizer", "none"}, command.ExitUsage, "--tokenizer"},
	} {
		code, _, stderr := s.loaderd(append([]string{"ledger"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit status %d: %s", c.args, code, stderr)
		}
	}
}
