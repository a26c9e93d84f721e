package daemoncmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/corpus/record"
)

// The demo without arguments, as in the README, can read every file that it finds.
func TestDemo_DefaultDocumentsAreReadable(t *testing.T) {
	found, err := demoDocuments(t.Context(), nil, 7<<20)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, in := range found.Inputs {
		for _, err := range in.Documents(t.Context()) {
			if skip := (*record.SkipError)(nil); err != nil && !errors.As(err, &skip) {
				t.Fatal(err)
			}
			n++
		}
	}
	if n < 5000 {
		t.Fatalf("%d documents in %s", n, found.Description)
	}
}

func TestGoTree_LocatesSources(t *testing.T) {
	root := t.TempDir()
	t.Setenv("GOROOT", root)
	if tree, err := goTree(t.Context()); err == nil || !strings.Contains(err.Error(), "loaderd demo ~/src") {
		t.Errorf("without sources: %q, %v", tree, err)
	}
	if err := os.Mkdir(filepath.Join(root, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	if tree, err := goTree(t.Context()); err != nil || tree != filepath.Join(root, "src") {
		t.Errorf("got %q, %v", tree, err)
	}
	t.Setenv("GOROOT", "")
	t.Setenv("PATH", root)
	if tree, err := goTree(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot find a Go installation") {
		t.Errorf("without go: %q, %v", tree, err)
	}
}
