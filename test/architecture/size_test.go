package architecture_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"loaderd/internal/testscale"
)

// maxProgramBytes bounds the stripped program for linux/amd64. python/tests/test_dist.py bounds the wheels.
const maxProgramBytes = 80_000_000

// TestProgram_Size builds the program as it is released.
func TestProgram_Size(t *testing.T) {
	if !testscale.All() {
		t.Skip("it builds the program once more: part of make test-all")
	}
	program := filepath.Join(t.TempDir(), "loaderd")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/loaderd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%.2000s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxProgramBytes {
		t.Errorf("the program has %d bytes, more than %d", info.Size(), maxProgramBytes)
	}
}
