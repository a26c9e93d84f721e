package tokenizer

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

func BenchmarkOneWord(b *testing.B) {
	for _, unit := range []string{"a", " ", "1", "中", "👩‍🔬"} {
		b.Run(unit, func(b *testing.B) {
			e := load(b, "gpt2").NewEncoder()
			text := []byte(strings.Repeat(unit, 10<<20/len(unit)))
			var ids []int32
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				ids = e.Encode(ids[:0], text)
			}
		})
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
