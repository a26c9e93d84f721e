package runcmd

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/loader/runconfig"
	"loaderd/tokenizer"
)

func TestLedgerText_FindsTokenizerOfRankFile(t *testing.T) {
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
	run := runconfig.Tokenizer{Name: file, Fingerprint: model.Fingerprint()}
	if m, err := tokenizerOf(run, "", chosen); err != nil || m.Fingerprint() != run.Fingerprint {
		t.Errorf("the run's tokenizer is not found: %v", err)
	}
	for _, other := range []tokenizer.Options{{}, {Pattern: "o200k", SpecialTokens: chosen.SpecialTokens}} {
		if _, err := tokenizerOf(run, "", other); err == nil || !strings.Contains(err.Error(), "--tokenizer") {
			t.Errorf("%+v gives error %v", other, err)
		}
	}
}
