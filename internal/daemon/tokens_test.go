package daemon

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/config"
)

// The daemon logs which token ends a document. It also logs how many special tokens a rank file has, because missing
// ones are encoded as text.
func TestDocuments_LogsTokenizer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tiktoken")
	var ranks bytes.Buffer
	for b := range 256 {
		fmt.Fprintf(&ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	if err := os.WriteFile(file, ranks.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, tokenizer string
		special         []string
		says            string // the only line
	}{
		{"none", file, nil,
			`level=WARN msg="rank file has no special tokens: name them in tokenizer.special_tokens" tokenizer=` + file},
		{"two", file, []string{"<a>", "<b>"},
			`level=INFO msg="loaded rank file" tokenizer=` + file + ` special_tokens=2 list=options`},
		{"built in", "gpt2", nil, `level=INFO msg="end-of-document token" id=50256 token=<|endoftext|> source="known name"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config.Default()
			c.Tokenizer.Name, c.Tokenizer.SpecialTokens = tt.tokenizer, tt.special
			if tt.tokenizer == file {
				c.Tokenizer.Pattern, c.Tokenizer.End = "gpt2", "none"
			}
			var out strings.Builder
			if _, err := LoadRunTokenizer(&c, slog.New(slog.NewTextHandler(&out, nil))); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tt.says) || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("log %q, want %q", out.String(), tt.says)
			}
		})
	}
}
