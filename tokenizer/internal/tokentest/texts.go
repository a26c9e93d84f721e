package tokentest

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/pretokenize"
)

// Pieces are texts that patterns and merges treat differently.
var Pieces = []string{
	" ", "  ", "\n", "\r\n", "\t", "\v", "\u0085", "\u00a0", "\u3000", "'", "'s", "'S", "'ſ", "'ll", "'LL", "'re",
	"'Ve", "'d",
	"a", "B", "the", "The", "HTTP", "ſ", "1", "23", "4567", "½", "٣", "é", "e\u0301", "中", "文字", "ا", "ǅ", "ʰ", "ª",
	"👩‍🔬", "😀",
	".", "/", "//", "...", "!", "-", "_", "<|", "|>", "\x00", "\ufffd", "\u200d", "\U00010400", "\U000323b0", "ing",
	"tion", "ize",
}

// RandomText returns a random text of Pieces, often few different ones.
func RandomText(r *rand.Rand) []byte {
	var b []byte
	narrow := Pieces[:1+r.IntN(len(Pieces))]
	for range 1 + r.IntN(60) {
		p := narrow[r.IntN(len(narrow))]
		for range 1 + r.IntN(3)*r.IntN(20) {
			b = append(b, p...)
		}
	}
	return b
}

// SourceText returns some MB of Go's own source tree.
func SourceText(b *testing.B) [][]byte {
	b.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatalf("find Go's source tree: %v", err)
	}
	var docs [][]byte
	size := 0
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			docs = append(docs, text)
			if size += len(text); size > 8<<20 {
				return fs.SkipAll
			}
			return err
		})
	if err != nil || size == 0 {
		b.Fatalf("read Go's source tree: %d bytes, %v", size, err)
	}
	return docs
}

// HostileTexts returns texts that avoid the fast paths: very long words, and words that no cache contains.
func HostileTexts(size int) map[string][]byte {
	texts := map[string][]byte{}
	for name, unit := range map[string]string{
		"letter": "a", "space": " ", "newline": "\n", "digit": "7", "punctuation": "!", "equals": "=", "apostrophe": "'",
		"emoji":     "👩‍🔬",
		"ideograph": "中", "alternating": "a1 ", "cases": "aB", "marks": "e\u0301", "only marks": "\u0301", "invalid": "\xff",
		"thai":        "กขค",
		"two letters": "ab",
	} {
		texts[name] = bytes.Repeat([]byte(unit), size/len(unit))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(b []byte) []byte{
		"random bytes":   func(b []byte) []byte { return append(b, byte(r.Uint32())) },
		"random digits":  func(b []byte) []byte { return append(b, byte('0'+r.IntN(10))) },
		"random letters": func(b []byte) []byte { return append(b, byte('a'+r.IntN(26))) },
		"random han":     func(b []byte) []byte { return utf8.AppendRune(b, 0x4E00+min(rune(r.ExpFloat64()*2000), 0x51FF)) },
		"random characters": func(b []byte) []byte {
			return utf8.AppendRune(b, '!'+r.Int32N(0x3000))
		},
		"new words": func(b []byte) []byte {
			for range 10 {
				b = append(b, byte('a'+r.IntN(26)))
			}
			return append(b, ' ')
		},
	} {
		var b []byte
		for len(b) < size {
			b = next(b)
		}
		texts[name] = b
	}
	return texts
}

// Words splits a text as an encoder does.
func Words(sp *pretokenize.Splitter, text []byte) (words []string) {
	var w pretokenize.Batch
	for i := 0; i < len(text); {
		n, _ := sp.Split(text, i, &w)
		for _, end := range w.Ends[:n] {
			words = append(words, string(text[i:end]))
			i = int(end)
		}
	}
	return words
}
