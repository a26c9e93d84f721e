package tokenizer

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// sourceText is some MB of Go's own source tree.
func sourceText(b *testing.B) [][]byte {
	b.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatalf("find Go's source tree: %v", err)
	}
	var docs [][]byte
	size := 0
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(path string, d fs.DirEntry, err error) error {
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

func BenchmarkEncode(b *testing.B) {
	docs := sourceText(b)
	size := 0
	for _, d := range docs {
		size += len(d)
	}
	for _, name := range Builtin() {
		b.Run(name, func(b *testing.B) {
			e := load(b, name).NewEncoder()
			var ids []int32
			tokens := 0
			b.SetBytes(int64(size))
			for b.Loop() {
				for _, d := range docs {
					ids = e.Encode(ids[:0], d)
					tokens += len(ids)
				}
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// hostileTexts are texts that leave the usual ways: words without end, and words that no cache has.
func hostileTexts(size int) map[string][]byte {
	texts := map[string][]byte{}
	for name, unit := range map[string]string{
		"letter": "a", "space": " ", "newline": "\n", "digit": "7", "punctuation": "!", "equals": "=", "apostrophe": "'", "emoji": "👩‍🔬",
		"ideograph": "中", "alternating": "a1 ", "cases": "aB", "marks": "e\u0301", "only marks": "\u0301", "invalid": "\xff", "thai": "กขค",
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

// BenchmarkHostile encodes each text with an encoder that has seen nothing.
func BenchmarkHostile(b *testing.B) {
	texts := hostileTexts(10 << 20)
	ids := make([]int32, 64<<20)
	for i := range ids { // so that the system gives this memory now
		ids[i] = 1
	}
	for _, name := range Builtin() {
		m := load(b, name)
		for _, kind := range slices.Sorted(maps.Keys(texts)) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(texts[kind])))
				for b.Loop() {
					b.StopTimer()
					e := m.NewEncoder()
					e.words.shared = newSharedWords()()
					b.StartTimer()
					e.Encode(ids[:0], texts[kind])
				}
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range Builtin() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Load(name, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
