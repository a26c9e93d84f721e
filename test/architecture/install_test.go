package architecture_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fromIndex is a command that installs loaderd from a package index.
var fromIndex = regexp.MustCompile("pip install [^`\\n#]*\\bloaderd[^`\\n]*")

// No package index has loaderd, so pages and messages install it from a checkout, or from the wheels of make dist.
func TestPages_InstallFromNoIndex(t *testing.T) {
	t.Chdir(root)
	pages := []string{"README.md", "python/README.md", "python/pyproject.toml", "python/daemon/README.md"}
	for folder, extension := range map[string]string{"docs": ".md", "python/src": ".py"} {
		before := len(pages)
		err := filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
			if filepath.Ext(file) == extension {
				pages = append(pages, file)
			}
			return err
		})
		if err != nil || len(pages) == before {
			t.Fatalf("%s: %d files, %v", folder, len(pages)-before, err)
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range fromIndex.FindAllString(string(text), -1) {
			if !strings.Contains(command, "--find-links bin/dist") && !strings.Contains(command, "--no-index") {
				t.Errorf("%s: %s", page, command)
			}
		}
	}
}
