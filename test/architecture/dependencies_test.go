package architecture_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestArchitecture_NamesDirectDependencies compares the table of libraries with go.mod.
func TestArchitecture_NamesDirectDependencies(t *testing.T) {
	t.Chdir(root)
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var required []string
	for line := range strings.SplitSeq(read("go.mod"), "\n") {
		if path, ok := strings.CutPrefix(line, "\t"); ok && !strings.HasSuffix(line, "// indirect") {
			module, _, _ := strings.Cut(path, " ")
			required = append(required, module)
		}
	}
	var named []string
	rows := regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(read("docs/explanation/libraries.md"), -1)
	for _, row := range rows {
		for module := range strings.SplitSeq(row[1], ", ") {
			named = append(named, strings.Trim(module, "`"))
		}
	}
	slices.Sort(required)
	slices.Sort(named)
	if diff := cmp.Diff(required, named); diff != "" {
		t.Errorf("go.mod requires other modules than the table of docs/explanation/libraries.md (-go.mod +table):\n%s",
			diff)
	}
}
