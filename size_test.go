package loaderd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/testscale"
)

// tag leaves gRPC's own pages out. The Makefile builds and tests with it.
const tag = "grpcnotrace"

// leftOut are packages that the program does without: what they draw, tell or hold is not worth what they add to it.
var leftOut = []string{"html/template", "golang.org/x/net/trace", "gonum.org/v1/plot", "codeberg.org/go-fonts/liberation/liberationsansregular",
	"github.com/pkoukk/tiktoken-go-loader", "github.com/goccy/go-json/internal/encoder/vm",
	"github.com/go-json-experiment/json", "go.opentelemetry.io/otel", "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"}

// TestLeftOut: what the program has been freed of does not come back with a package that imports it.
func TestLeftOut(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", tag, "./cmd/loaderd").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, "loaderd/internal/report") {
		t.Fatalf("these are no packages of the program: %q", packages)
	}
	for _, p := range leftOut {
		if slices.Contains(packages, p) {
			t.Errorf("the program imports %s: go list -deps -tags %s -f '{{.ImportPath}}: {{.Imports}}' ./cmd/loaderd says by which package", p, tag)
		}
	}
}

// mostBytes is what the stripped program for linux/amd64 may have. docs/results/benchmarks.md says what the bytes are, and `make size` by package.
const mostBytes = 80_000_000

// sortsSlowly is part of a sort of numbers that was compiled without inlining. The linker keeps one of all copies of a generic function, for whoever calls it: the
// largest, which is one without inlining where that makes code larger.
var sortsSlowly = regexp.MustCompile(`-> cmp\.Less\[go\.shape\.(u?int|float)`)

// TestSize: the program as it is released does not grow unnoticed, and the linker leaves out methods that nobody calls. It does so as long as nothing that is
// reachable asks for methods by a name that is not known before, as text/template does.
func TestSize(t *testing.T) {
	if !testscale.All() {
		t.Skip("it builds the program once more: part of make test-all")
	}
	program := filepath.Join(t.TempDir(), "loaderd")
	reached, err := exec.Command("go", "run", "./internal/release", "-ldflags", "-dumpdep", "linux/amd64", program).CombinedOutput()
	if err != nil {
		t.Fatalf("go run ./internal/release: %v\n%.2000s", err, reached)
	}
	if !bytes.Contains(reached, []byte("main.main -> ")) {
		t.Fatalf("the linker does not say what reaches what: %.500q", reached)
	}
	for line := range strings.Lines(string(reached)) {
		if strings.Contains(line, "<ReflectMethod>") {
			t.Errorf("%s asks for methods by name, so that the program has all methods of all its packages", strings.TrimSpace(line))
			break
		}
		if sortsSlowly.MatchString(line) {
			t.Errorf("%s: a package of internal/release/unhurried sorts numbers; it uses internal/order or package sort, or is not listed", strings.TrimSpace(line))
		}
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > mostBytes {
		t.Errorf("the program has %d bytes, more than %d", info.Size(), mostBytes)
	}
}
