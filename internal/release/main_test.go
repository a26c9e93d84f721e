package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// hurried are packages that a document, a plan or a batch passes.
var hurried = []string{"loaderd/arrowout", "loaderd/loader", "loaderd/loader/plan", "loaderd/packonline", "loaderd/shuffle", "loaderd/stream/doclog", "loaderd/stream/planlog", "loaderd/stream/conn",
	"loaderd/tokenizer/internal/merge", "loaderd/internal/corpus", "github.com/nats-io/nats-server/v2/server", "github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream",
	"github.com/apache/arrow/go/v17/arrow/ipc", "google.golang.org/grpc", "google.golang.org/grpc/internal/transport", "google.golang.org/protobuf/internal/impl",
	"bufio", "bytes", "crypto/internal/fips140/aes/gcm", "encoding/json", "runtime", "slices", "strings", "sync"}

// Each pattern has packages of the program, and none of what data passes.
func TestPatterns(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "./cmd/loaderd")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	for _, p := range hurried {
		if !slices.Contains(packages, p) {
			t.Errorf("the program has no package %s", p)
		}
	}
	for _, pattern := range patterns() {
		if !slices.ContainsFunc(packages, func(p string) bool { return matches(pattern, p) }) {
			t.Errorf("the program has no package %s", pattern)
		}
		for _, p := range hurried {
			if matches(pattern, p) {
				t.Errorf("%s is compiled without inlining, by the pattern %s", p, pattern)
			}
		}
	}
}

// matches is how go reads the patterns here: with /... they are for all packages below too.
func matches(pattern, p string) bool {
	below, tree := strings.CutSuffix(pattern, "/...")
	return p == below || tree && strings.HasPrefix(p, below+"/")
}

func TestArguments(t *testing.T) {
	got := arguments("-s -w", "out/loaderd")
	for _, want := range [][]string{{"-ldflags", "-funcalign=16 -s -w"}, {"-o", "out/loaderd"}, {"-gcflags=crypto/tls=-l"}} {
		if i := slices.Index(got, want[0]); i < 0 || !slices.Equal(got[i:i+len(want)], want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got[len(got)-1] != "./cmd/loaderd" || slices.ContainsFunc(got, func(a string) bool { return strings.Contains(a, "#") || strings.HasPrefix(a, "-gcflags==") }) {
		t.Errorf("arguments are %q", got)
	}
}
