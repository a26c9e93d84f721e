package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/runadmin"
)

// Runs are listed with their daemon and on its data folder, and a run can be deleted while no daemon leads it.
func TestRuns_ListAndDelete(t *testing.T) {
	s := newSite(t)
	stop := s.serve("--run", "first")
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("%03d.txt", i)] = strings.Repeat(fmt.Sprintf("This is document %d of a run. ", i), 1+i*7%23)
	}
	s.does("publish", "--source", "files", corpusFolder(t, files))
	s.does("seal")
	steps := len(s.read())
	line := fmt.Sprintf(
		`(?m)^first +ended +%d +%[1]d +- +\S+:\d+ +[0-9a-f]{8} +DOCS +1 +[0-9.]+ (KiB|B) +[0-9.]+ (KiB|B)$`, steps)
	if said := s.does("run", "list", "--wide"); !regexp.MustCompile(line).MatchString(said) {
		t.Errorf("while a daemon serves: %s", said)
	}
	refused := func(code int, want string, args ...string) {
		t.Helper()
		if have, stdout, stderr := s.loaderd(args...); have != code || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%v: exit status %d, %s%s, want %d and %q", args, have, stdout, stderr, code, want)
		}
	}
	refused(command.ExitFailed, "run first is led by process", "run", "delete", "first", "--yes")
	stop()

	refused(command.ExitUsage, "--yes", "run", "delete", "first")
	refused(command.ExitUsage, "run name", "run", "delete", "fir st")
	refused(command.ExitFailed, "cannot find run second", "run", "delete", "second", "--yes")
	var all []runadmin.RunInfo
	if err := json.Unmarshal([]byte(s.does("run", "list", "--json")), &all); err != nil || len(all) != 1 ||
		all[0].Run != "first" || all[0].Steps != uint64(steps) ||
		all[0].Leader != nil {
		t.Errorf("%+v, %v", all, err)
	}
	said := s.does("run", "delete", "first", "--yes")
	for _, part := range []string{"deleted run first: plan (", "low watermark, checkpoints (",
		"stream DOCS: no run needs its documents"} {
		if !strings.Contains(said, part) {
			t.Errorf("output of delete lacks %q: %s", part, said)
		}
	}
	if said := s.does("run", "list"); said != "no runs\n" {
		t.Errorf("afterwards: %s", said)
	}
}
