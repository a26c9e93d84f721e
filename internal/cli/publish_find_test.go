package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ledger finds a published document by its name: a plain file by its path as given, a line by its id, path or
// url.
func TestLedger_FindsDocumentsByName(t *testing.T) {
	s := newSite(t)
	s.serve("--run", "found")
	root := t.TempDir()
	t.Chdir(root)
	if err := os.Mkdir("corpus", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := os.WriteFile(filepath.Join("corpus", fmt.Sprint(i, ".txt")),
			fmt.Appendf(nil, "file %d %s", i, strings.Repeat("text ", 30)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Repeat("more text ", 20)
	lines := fmt.Sprintf(`{"text":"a %[1]s","id":"page-17"}`+"\n"+
		`{"text":"b %[1]s","id":"same","meta":{"path":"src/main.go"}}`+"\n"+
		`{"text":"c %[1]s","id":"same","url":"https://example.org/c"}`+"\n", text)
	if err := os.WriteFile("pages.json", []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := s.does("publish", "corpus", "pages.json"); !strings.Contains(out, "committed 15 documents") {
		t.Fatal(out)
	}
	s.does("seal")
	s.read()
	for name, rows := range map[string]int{"corpus/7.txt": 1, "7.txt": 1, "page-17": 1, "src/main.go": 1,
		"https://example.org/c": 1, "same": 2,
		"corpus/12.txt": 0} {
		found := strings.Count(s.does("ledger", "--find", name), "\n") - 1
		if found < rows || rows == 0 && found > 0 {
			t.Errorf("%s is found in %d rows, want %d or more", name, found, rows)
		}
	}
	if table := s.does("ledger", "--step", "0", "--documents"); !strings.Contains(table, "corpus/") {
		t.Errorf("the ledger does not name files: %s", table)
	}
}
