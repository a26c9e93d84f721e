package corpus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// When a folder is scanned, JSON files of any size without the text's field are skipped.
func TestFolder_SkipsJSONWithoutTextOfAnySize(t *testing.T) {
	for _, size := range []int{1 << 10, 160 << 10, 3 << 20} {
		var lock strings.Builder
		lock.WriteString(`{"name":"app","packages":{"":{"text":"no document"}`)
		for i := 0; lock.Len() < size; i++ {
			fmt.Fprintf(&lock, `,"node_modules/%d":{"version":"1.2.%d","text":["x"]}`, i, i)
		}
		lock.WriteString(`},"lockfileVersion":3}`)
		long := strings.Repeat("long ", size/5)
		dir := t.TempDir()
		for name, data := range map[string]string{"a.txt": "a text", "package-lock.json": lock.String(),
			"list.json": "[" + lock.String() + "]",
			"text.json": `{"about":"` + long + `","text":"used"}`, "z.txt": "another"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		inputs, err := corpus.Open(t.Context(), []string{dir}, nil, corpus.Options{MaxDocument: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var texts, left []string
		for _, in := range inputs {
			for d, err := range in.Documents(t.Context()) {
				var skip *record.SkipError
				switch {
				case errors.As(err, &skip):
					left = append(left, fmt.Sprintf("%s %s", filepath.Base(skip.Path), skip.Reason))
					if !strings.Contains(err.Error(), `no "text"; it has `) {
						t.Error(err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					texts = append(texts, string(d.Data))
				}
			}
		}
		if fmt.Sprint(len(texts), left) != "3 [list.json no text package-lock.json no text]" {
			t.Errorf("of %d bytes: %.60q and %q", size, texts, left)
		}
	}
}
