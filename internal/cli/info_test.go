package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"loaderd/internal/cli/command"
	"loaderd/loader"
)

// info of a daemon over real streams gives an estimate while any source is open, and the exact number of steps once
// all sources are sealed and measured. The run then has exactly that many steps.
func TestInfo_EstimateBecomesExactAfterSeal(t *testing.T) {
	s := newSite(t)
	mixed := []string{"--run", "mixed", "--set", "sources.code.weight=1", "--set", "sources.web.weight=2", "--set",
		"sources.web.epochs=2",
		"--set", "serve.ahead=2", "--set", "serve.measure_tokens=0"}
	stop := s.serve(mixed...)
	for i, source := range []string{"code", "web"} {
		files := map[string]string{}
		for k := range 150 {
			files[fmt.Sprintf("%03d.txt", k)] = strings.Repeat(fmt.Sprintf("This is document %d of %s. ", k, source),
				1+k*7%(20+i*13))
		}
		s.does("publish", "--source", source, corpusFolder(t, files))
	}
	if code, _, said := s.loaderd("run", "show", "--measure"); code != command.ExitFailed ||
		!strings.Contains(said, "[code web] may get more documents") {
		t.Errorf("measured although nothing is sealed: %s", said)
	}
	within(t, func() bool { return strings.Contains(s.does("run", "list"), " so far ") })
	s.lists(t, "live", `\d+ ± \d+ so far`, "open")
	if said := s.does("seal"); said != "run mixed ends when its sources are used up, each at its current last "+
		"document: code, web\n" {
		t.Errorf("output of seal: %s", said)
	}
	said := ""
	within(t, func() bool { said = s.does("run", "show"); return strings.Contains(said, " steps ± ") })
	if !strings.Contains(said, "sources  code, web") {
		t.Errorf("output of info: %s", said)
	}
	var info loader.Info
	if err := json.Unmarshal([]byte(s.does("run", "show", "--measure", "--json")), &info); err != nil ||
		!info.Length.Exact ||
		info.Ended {
		t.Fatalf("info is %+v, %v", info, err)
	}
	s.lists(t, "sealed", fmt.Sprint(info.Length.Steps), "sealed at 150")
	if steps := len(s.read()); uint64(steps) != info.Length.Steps {
		t.Errorf("%d steps read, %d measured", steps, info.Length.Steps)
	}
	if said := s.does("run", "show"); !strings.Contains(said, fmt.Sprintf("%d steps, exactly", info.Length.Steps)) {
		t.Errorf("output of info: %s", said)
	}
	s.lists(t, "ended", fmt.Sprint(info.Length.Steps), "sealed at 150")
	stop()
}

// lists checks the output of runs for a run with sources code and web.
func (s *site) lists(t *testing.T, state, length, source string) {
	t.Helper()
	said := s.does("run", "list", "--wide")
	for _, line := range []string{
		`mixed +` + state + ` +\d+ +` + length + ` +- +\S+:\d+ +[0-9a-f]{8} +- +- +`,
		`  code +` + source + ` +DOCS_code +1$`, `  web +` + source + ` +DOCS_web +1$`} {
		if !regexp.MustCompile("(?m)^" + line).MatchString(said) {
			t.Errorf("output of runs:\n%swant %s", said, line)
		}
	}
}

// within waits until a condition holds.
func within(t *testing.T, so func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("condition not reached within a minute")
		}
	}
}
