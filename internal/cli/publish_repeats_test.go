package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/publishing"
)

// Publishing the same files under another path, or standard input again, warns that they were published before.
func TestPublish_WarnsOfRepeatUnderAnotherPath(t *testing.T) {
	s := documentServer(t)
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("%02d.txt", i)] = fmt.Sprint("document ", i)
	}
	dir := corpusFolder(t, files)
	file := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%02d.txt", i)) }
	lines := jsonLines(30)
	for _, c := range []struct {
		name, stdin string
		args        []string
		new         int64
		repeated    *publishing.Repeats // without the fields of other inputs
		input, said string              // the text of the warning, empty for none
	}{
		{"a folder", "", []string{dir}, 20, nil, "", ""},
		{"the folder again", "", []string{dir}, 0, nil, "", ""},
		{"files of it", "", []string{file(3), file(4)}, 0, &publishing.Repeats{Documents: 2, Sequence: 4}, dir + "/",
			"all of these documents were published before as input " + dir},
		{"standard input", lines, []string{"-"}, 30, nil, "", ""},
		{"standard input again", lines, []string{"-"}, 0, &publishing.Repeats{Documents: 30, Sequence: 21}, "",
			"all of these documents were published before from standard input"},
		{"longer standard input", lines + `{"text":"one more"}`, []string{"-"}, 1,
			&publishing.Repeats{Documents: 30, Sequence: 21}, "", ""},
	} {
		code, sum, stderr := publishes(t, s, c.stdin, c.args...)
		if code != command.ExitOK || sum.Documents != c.new {
			t.Fatalf("%s: exit status %d, %+v: %s", c.name, code, sum, stderr)
		}
		switch {
		case (sum.Repeated == nil) != (c.repeated == nil):
			t.Errorf("%s: %+v", c.name, sum.Repeated)
		case c.repeated != nil && (sum.Repeated.Documents != c.repeated.Documents ||
			sum.Repeated.Sequence != c.repeated.Sequence || sum.Repeated.Input != c.input):
			t.Errorf("%s: %+v, want %+v of %s", c.name, sum.Repeated, c.repeated, c.input)
		}
		if (c.said == "") != (stderr == "") || !strings.Contains(stderr, c.said) {
			t.Errorf("%s: warning %q, want %q", c.name, stderr, c.said)
		}
	}
}
