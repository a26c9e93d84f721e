package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/loader/plan"
	"loaderd/tokenizer"
)

// ledgerText compares the texts that the ledger shows with the documents, of which files has the text by its path.
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
	if err := json.Unmarshal([]byte(s.does("ledger", "--step", "2", "--text", "--format", "json")), &page); err != nil {
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
		{[]string{"--step", "2", "--text", "--format", "arrow"}, exitUsage, "table or json"},
		{[]string{"--find", "x", "--text"}, exitUsage, "text"},
		{[]string{"--step", "2", "--text", "--tokenizer", "cl100k_base"}, exitFailed, "--tokenizer"},
		{[]string{"--step", "2", "--text", "--tokenizer", "none"}, exitUsage, "--tokenizer"},
	} {
		code, _, stderr := s.loaderd(append([]string{"ledger"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit status %d: %s", c.args, code, stderr)
		}
	}
}

func TestTokenizerOfARankFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.tiktoken")
	var ranks []byte
	for b := range 256 {
		ranks = fmt.Appendf(ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	if err := os.WriteFile(file, ranks, 0o644); err != nil {
		t.Fatal(err)
	}
	chosen := tokenizer.Options{Pattern: "cl100k", SpecialTokens: []string{"<|endoftext|>"}}
	model, err := tokenizer.Load(file, chosen)
	if err != nil {
		t.Fatal(err)
	}
	run := plan.Tokenizer{Name: file, Fingerprint: model.Fingerprint()}
	if m, err := tokenizerOf(run, "", chosen); err != nil || m.Fingerprint() != run.Fingerprint {
		t.Errorf("the run's tokenizer is not found: %v", err)
	}
	for _, other := range []tokenizer.Options{{}, {Pattern: "o200k", SpecialTokens: chosen.SpecialTokens}} {
		if _, err := tokenizerOf(run, "", other); err == nil || !strings.Contains(err.Error(), "--tokenizer") {
			t.Errorf("%+v gives error %v", other, err)
		}
	}
}
