package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"loaderd/internal/daemon"
	"loaderd/tokenizer"
)

// gpt2 caches the model that the commands of these tests share. Without it each command would build its own.
var gpt2 = sync.OnceValues(func() (*tokenizer.Model, error) { return daemon.LoadModel("gpt2", tokenizer.Options{}) })

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"loaderd": func() { os.Exit(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestCLI_Scripts runs each file of testdata/script as a scenario of the command line.
func TestCLI_Scripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			return os.WriteFile(filepath.Join(e.WorkDir, "bytes.json"), bytesTokenizer(t), 0o600)
		}})
}

// bytesTokenizer returns a tokenizer.json without merges: one token per byte, in GPT-2's alphabet, and one
// end-of-document token.
func bytesTokenizer(t *testing.T) []byte {
	vocab := map[string]int{}
	for b, next := 0, rune(256); b < 256; b++ {
		r := rune(b)
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			r, next = next, next+1
		}
		vocab[string(r)] = b
	}
	file, err := json.Marshal(map[string]any{
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
		"added_tokens": []map[string]any{{"id": 256, "content": "<|endoftext|>", "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false,
			"special": true}},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return file
}
