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

// The start says how many special tokens a rank file has: a token that is missing becomes text.
func TestDocuments_LogsRankFile(t *testing.T) {
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
		says            string // empty: nothing
	}{
		{"none", file, nil,
			`level=WARN msg="rank file has no special tokens: name them in tokenizer.special_tokens" tokenizer=` + file},
		{"two", file, []string{"<a>", "<b>"},
			`level=INFO msg="loaded rank file" tokenizer=` + file + ` special_tokens=2 list=options`},
		{"built in", "gpt2", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config.Default()
			c.Tokenizer.Name, c.Tokenizer.SpecialTokens = tt.tokenizer, tt.special
			if tt.tokenizer == file {
				c.Tokenizer.Pattern, c.Tokenizer.End = "gpt2", "none"
			}
			var out strings.Builder
			if _, err := Documents(&c, slog.New(slog.NewTextHandler(&out, nil))); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tt.says) || tt.says == "" && out.Len() > 0 {
				t.Errorf("log %q, want %q", out.String(), tt.says)
			}
		})
	}
}
