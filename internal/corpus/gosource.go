package corpus

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

// GoSource returns the folder of Go's own library: real text that a machine with Go has. The GOROOT of the environment counts first.
func GoSource(ctx context.Context) (string, error) {
	root := os.Getenv("GOROOT")
	if root == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("no Go installation found: go env GOROOT: %w", err)
		}
		root = strings.TrimSpace(string(out))
	}
	dir := filepath.Join(root, "src")
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s holds no Go source tree", dir)
	}
	return dir, nil
}

// GoFiles yields the contents of the files of Go's own library, in the order of their paths; an error ends them, and so does a library without any.
func GoFiles(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		root, err := GoSource(ctx)
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
