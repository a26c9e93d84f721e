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
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	pages = append(pages, "README.md", "python/README.md", "python/pyproject.toml", "python/daemon/README.md")
	err = filepath.WalkDir("python/src", func(file string, _ fs.DirEntry, err error) error {
		if filepath.Ext(file) == ".py" {
			pages = append(pages, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range fromIndex.FindAllString(string(text), -1) {
			if !strings.Contains(command, "--find-links bin/dist") {
				t.Errorf("%s: %s", page, command)
			}
		}
	}
}
