package corpus

import (
	"context"
	"fmt"
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
