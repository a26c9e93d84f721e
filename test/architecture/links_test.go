package architecture_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// page is a page or picture of docs/ that is named without a link, as in a comment.
	page = regexp.MustCompile(`(?:^|[^\w/.-])(?:\.\./)*(docs/[\w/-]+\.(?:md|svg))`)
)

// TestLinks_TargetsExist checks that the targets of links exist, with their anchors, and so does every page of docs/
// that code, scripts and pages name.
func TestLinks_TargetsExist(t *testing.T) {
	t.Chdir(root)
	for _, b := range brokenLinks(t, os.DirFS(".")) {
		t.Error(b)
	}
}

func TestLinks_BrokenLinksAreDetected(t *testing.T) {
	t.Chdir(root)
	got := brokenLinks(t, fstest.MapFS{
		"README.md": {
			Data: []byte(
				"[a](docs/a.md#the-first-part) [gone](docs/gone.md) [code](internal) [web](https://example.org/x.md#y)\n")},
		"docs/a.md": {Data: []byte("# The `first`, part!\n[self](#nowhere) [up](../README.md) " +
			"![plot](img/a.svg)\n```sh\n# no heading\n```\n[c](#no-heading)\n")},
		"docs/img/a.svg": {},
		"internal/a.go": {
			Data: []byte("// See docs/b.md and docs/a.md.\nconst x = \"../../docs/c.md\" // https://example.org/docs/d.md\n")},
		".venv/a.md": {Data: []byte("[gone](gone.md)")},
	})
	want := []string{
		"README.md links to docs/gone.md: no such file",
		"README.md names docs/gone.md: no such file",
		"docs/a.md links to #no-heading: no such heading in docs/a.md",
		"docs/a.md links to #nowhere: no such heading in docs/a.md",
		"internal/a.go names docs/b.md: no such file",
		"internal/a.go names docs/c.md: no such file",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// brokenLinks returns the links of Markdown files, and the pages of docs/ named in source files, that do not exist,
// in order. It skips hidden folders and links to other hosts.
func brokenLinks(t *testing.T, root fs.FS) (broken []string) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == "." {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") || file == "bin" { // build output
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() || file != "Makefile" && !slices.Contains([]string{".md", ".go", ".py", ".yaml", ".toml"},
			path.Ext(file)) {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		if path.Ext(file) == ".md" {
			broken = append(broken, brokenTargets(root, file, string(text))...)
		}
		if file == "test/architecture/links_test.go" { // its examples are broken on purpose
			return nil
		}
		for _, m := range page.FindAllStringSubmatch(string(text), -1) {
			if _, err := fs.Stat(root, m[1]); err != nil {
				broken = append(broken, fmt.Sprintf("%s names %s: no such file", file, m[1]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// brokenTargets returns the broken links of one Markdown file.
func brokenTargets(root fs.FS, file, text string) (broken []string) {
	for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		to, anchor, anchored := strings.Cut(m[1], "#")
		if strings.Contains(to, "://") {
			continue
		}
		target := file
		if to != "" {
			target = path.Join(path.Dir(file), to)
		}
		content, err := fs.ReadFile(root, target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			broken = append(broken, fmt.Sprintf("%s links to %s: no such file", file, m[1]))
		case anchored && !slices.Contains(anchors(string(content)), anchor):
			broken = append(broken, fmt.Sprintf("%s links to %s: no such heading in %s", file, m[1], target))
		}
	}
	return broken
}

// anchors returns GitHub's anchor names of a page's headings.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case strings.ContainsRune("`,.!?():*'\"/&+;", r):
				return -1
			}
			return r
		}, strings.ToLower(m[1])))
	}
	return names
}
