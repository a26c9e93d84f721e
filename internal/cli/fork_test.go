package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
)

// fill publishes documents of a source.
func (s *site) fill(source string, documents int) {
	s.t.Helper()
	files := map[string]string{}
	for i := range documents {
		files[fmt.Sprintf("%03d.txt", i)] = strings.Repeat(fmt.Sprintf("This is document %d of %s. ", i, source), 1+i*7%11)
	}
	s.does("publish", "--source", source, corpusFolder(s.t, files))
}

// tokensBySource counts the tokens of each source in batches.
func tokensBySource(batches ...flightclient.Batch) map[string]int {
	out, names := map[string]int{}, []string{"code", "math", "web", "forum"} // in order of addition to the run
	for _, b := range batches {
		for i, row := range b.Documents {
			for k, x := range row {
				out[names[b.Sources[i][k]]] += int(x.Length)
			}
		}
	}
	return out
}

// The mixture of a running run changes: new weights, a source with its own packing, a removed source. A fork makes
// the same steps as its parent from the fork's first step on; it can be audited, and the ledger shows its steps.
// Another fork packs its documents differently, in another mixture.
func TestMixture_ChangeAndForkOfSeveralSources(t *testing.T) {
	s := newSite(t)
	config := filepath.Join(t.TempDir(), "mixed.yaml")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`
sources:
  web:  {weight: 3}
  code: {weight: 1, packing: {method: splice}}
  math: {weight: 1, epochs: 2, block: 4}
mix: {schedule: [{tokens: 4000, ramp: 6000, weights: {web: 1, code: 1, math: 1}}]}
`)
	s.dir = t.TempDir()
	stop := s.serve("-c", config, "--run", "parent")
	for source, n := range map[string]int{"web": 90, "code": 40, "math": 20} {
		s.fill(source, n)
	}
	if said := s.does("mix", "--set", "web=0.5", "--dry-run"); !strings.Contains(said, "web") {
		t.Errorf("output of a dry run: %s", said)
	}
	s.does("mix", "--set", "web=0.5", "--set", "math=0.2")
	s.does("mix", "--add", "forum={weight: 0.3, packing: {method: concat}}", "--remove", "code")
	s.fill("forum", 50)
	if code, _, stderr := s.loaderd("mix", "--add", "code=0.5"); code == command.ExitOK ||
		!strings.Contains(stderr, "is or was a source of the run") {
		t.Errorf("a removed source was added again: exit status %d: %s", code, stderr)
	}
	s.does("filter", "--source", "web", "--where", "tokens > 0 && bytes > 0")
	s.untilStatus(func(s api.Status) bool { return len(s.Filters) == 2 && s.Filters[1].Source == "web" })
	if said := s.does("filter"); !strings.Contains(said, "tokens > 0 && bytes > 0") {
		t.Errorf("output of filter: %s", said)
	}
	if code, _, stderr := s.loaderd("filter", "--where", "tokns > 0"); code == command.ExitOK ||
		!strings.Contains(stderr, "column 1") || !strings.Contains(stderr, "unknown name tokns") {
		t.Errorf("a filter of an unknown name: exit status %d: %s", code, stderr)
	}
	s.does("seal")
	parent := s.read("sources")
	whole := tokensBySource(parent...)
	if whole["forum"] == 0 || whole["web"] == 0 || whole["math"] == 0 {
		t.Errorf("the steps have tokens of %v", whole)
	}
	if said := s.does("mix"); !strings.Contains(said, "forum") {
		t.Errorf("output of mix: %s", said)
	}
	// while the parent is served
	at := len(parent) / 3
	if said := s.does("run", "fork", "-c", config, "--run", "parent", "--step", fmt.Sprint(at), "--new",
		"child"); !strings.Contains(said, "configuration unchanged") ||
		!strings.Contains(said, "  source forum: ") {
		t.Errorf("output of fork: %s", said)
	}
	if code, _, stderr := s.loaderd("run", "fork", "-c", config, "--run", "parent", "--step", "3", "--new",
		"child"); code == command.ExitOK || !strings.Contains(stderr, "there is a run of that name") {
		t.Errorf("forked into an existing run: exit status %d: %s", code, stderr)
	}
	stop()
	stop = s.serve("-c", config, "--run", "child")
	child := s.read("sources")
	if len(child) != len(parent)-at {
		t.Fatalf("%d steps of the fork, %d of its parent from step %d on", len(child), len(parent)-at, at)
	}
	for i, b := range child {
		if want := parent[at+i]; !reflect.DeepEqual(b.InputIDs, want.InputIDs) ||
			!reflect.DeepEqual(b.SegmentIDs, want.SegmentIDs) || !reflect.DeepEqual(b.Documents, want.Documents) {
			t.Fatalf("step %d of the fork is not step %d of its parent", i, at+i)
		}
	}
	if said := s.does("ledger", "--step", "0"); !strings.Contains(said, " web/") {
		t.Errorf("output of ledger: %s", said)
	}
	stop()
	for _, run := range []string{"parent", "child"} {
		if said := s.does("run", "audit", "-c", config, "--run", run); !strings.Contains(said,
			" steps equals the log; the run has ended") {
			t.Errorf("audit of %s: %s", run, said)
		}
	}
	write(`
sources:
  web:   {weight: 1}
  code:  {weight: 1}
  forum: {weight: 2}
  math:  {weight: 1, epochs: 3, block: 4}
`)
	other := []string{"-c", config, "--set", "packing.method=bfd", "--set", "steps.rows=3"}
	if said := s.does(slices.Concat([]string{"run", "fork", "--run", "child", "--step", "2", "--new", "grandchild"},
		other)...); !strings.Contains(said, "steps.rows: 4 -> 3") {
		t.Errorf("output of fork: %s", said)
	}
	var forked struct {
		Run     string
		Sources []string
		Changed []string
	}
	said := s.does(slices.Concat([]string{"run", "fork", "--run", "child", "--step", "2", "--new", "in-json", "--json"},
		other)...)
	if err := json.Unmarshal([]byte(said), &forked); err != nil || forked.Run != "in-json" || len(forked.Sources) < 4 ||
		!slices.Contains(forked.Changed, "steps.rows: 4 -> 3") {
		t.Errorf("JSON of fork: %s, %v", said, err)
	}
	stop = s.serve(append(other, "--run", "grandchild")...)
	var sealed struct{ Run string }
	if err := json.Unmarshal([]byte(s.does("seal", "--json")), &sealed); err != nil || sealed.Run != "grandchild" {
		t.Errorf("JSON of seal: %+v, %v", sealed, err)
	}
	last := s.read("sources")
	tokens := tokensBySource(slices.Concat(parent[:at], child[:2], last)...)
	if tokens["web"] != whole["web"] || tokens["forum"] != whole["forum"] || 2*tokens["math"] != 3*whole["math"] ||
		tokens["code"] <= whole["code"] {
		t.Errorf("tokens of each source over three generations are %v, in the first one alone %v", tokens, whole)
	}
	stop()
	if said := s.does("run", "list"); !strings.Contains(said, "grandchild") || strings.Contains(said, "unreadable") {
		t.Errorf("output of runs: %s", said)
	}
	if said := s.does(slices.Concat([]string{"run", "repair", "--run", "grandchild", "--new", "copy", "--before", "9"},
		other)...); !strings.Contains(said, "8 records") {
		t.Errorf("output of repair: %s", said)
	}
	stop = s.serve(append(other, "--run", "copy")...)
	if copied := s.read("sources"); len(copied) != len(last) || !reflect.DeepEqual(copied[len(copied)-1].InputIDs,
		last[len(last)-1].InputIDs) {
		t.Errorf("%d steps of the repaired copy, want %d", len(copied), len(last))
	}
	stop()
}
