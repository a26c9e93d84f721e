// Package check checks the files for operators with the libraries of the tools that read them: Helm, Kubernetes,
// Compose, BuildKit, nfpm. It is a separate module, so that the program's module does not require them. make
// test-deploy runs it.
package check

import (
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with the file testdata/NAME.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s: -want +got:\n%s", file, diff)
	}
}

var (
	building sync.Once
	binary   string
	failed   error
)

// loaderd returns the program as in the image: LOADERD_BIN, or a build for these tests that is static and without
// symbols.
func loaderd(t *testing.T) string {
	t.Helper()
	building.Do(func() {
		if binary = os.Getenv("LOADERD_BIN"); binary != "" {
			return
		}
		var folder string
		if folder, failed = os.MkdirTemp("", "loaderd"); failed != nil {
			return
		}
		binary = filepath.Join(folder, "loaderd")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/loaderd")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			failed = &exec.Error{Name: string(out), Err: err}
		}
	})
	if failed != nil {
		t.Fatal(failed)
	}
	return binary
}

func TestMain(m *testing.M) {
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm logs each link that it follows
	code := m.Run()
	if binary != "" && os.Getenv("LOADERD_BIN") == "" {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}
