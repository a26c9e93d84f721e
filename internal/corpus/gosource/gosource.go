// Package gosource finds the source of Go's standard library: real text on every machine with Go.
package gosource

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Dir returns the folder of Go's standard library, below GOROOT of the environment if it is set.
func Dir(ctx context.Context) (string, error) {
	root := os.Getenv("GOROOT")
	if root == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("cannot find a Go installation: go env GOROOT: %w", err)
		}
		root = strings.TrimSpace(string(out))
	}
	dir := filepath.Join(root, "src")
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s contains no Go source tree", dir)
	}
	return dir, nil
}

// Files yields the contents of the Go files of the library, in the order of their paths. An error ends the iteration. A
// library without files is an error.
func Files(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		root, err := Dir(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		none := true
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			none = false
			b, err := os.ReadFile(path)
			if err == nil && !yield(b, nil) {
				return fs.SkipAll
			}
			return err
		})
		if err == nil && none {
			err = fmt.Errorf("no Go files under %s", root)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
