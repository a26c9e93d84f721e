package architecture_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "loaderd"

// arrows are the imports between packages. A package may import packages that its arrows lead to, directly or not.
var arrows = map[string][]string{
	"cmd/loaderd": {"internal/cli"},
	"internal/cli": {"internal/build", "internal/cli/daemoncmd", "internal/cli/dlqcmd", "internal/cli/publishcmd",
		"internal/cli/runcmd",
		"internal/cli/simulatecmd", "internal/jsonlines", "internal/manual"},
	"internal/cli/daemoncmd": {"internal/cli/command", "internal/daemon", "internal/demo/screen", "internal/runadmin"},
	"internal/cli/dlqcmd":    {"internal/cli/command", "stream/deadletter", "stream/retention"},
	"internal/cli/publishcmd": {"internal/cli/command", "internal/daemon", "internal/objects", "internal/publishing",
		"internal/inspect", "internal/tokenfiles",
		"internal/tracing", "stream/publish", "loader/plan"},
	"internal/cli/runcmd": {"internal/cli/command", "internal/daemon", "internal/export", "internal/ledger",
		"internal/runadmin", "internal/top", "stream/lease",
		"stream/planlog", "loader/mixture", "loader/runconfig"},
	"internal/cli/simulatecmd": {"internal/cli/command", "internal/daemon", "internal/documents", "internal/lengths",
		"internal/lengths/lengthsin",
		"internal/report", "internal/runadmin", "stream/docstream", "loader/runconfig"},
	"internal/cli/command": {"internal/auth", "internal/config", "internal/daemonfile", "internal/flightclient",
		"stream"},
	"internal/manual": {},
	"internal/daemon": {"internal/auth", "internal/build", "internal/config", "internal/connlimit",
		"internal/daemonfile",
		"internal/corpus", "internal/httplimit", "internal/pulling", "internal/webui", "internal/stats", "internal/status",
		"internal/tracing", "stream", "stream/permissions", "stream/runstate", "stream/docstream", "arrowout", "loader",
		"loader/census", "tokenizer"},
	"internal/webui": {"internal/auth", "internal/httplimit", "internal/ledger", "internal/api", "loader"},
	"internal/status": {"internal/auth", "internal/history", "internal/stats", "internal/api", "loader",
		"loader/census"},
	"internal/history": {"internal/api", "loader"},
	"internal/tracing": {"internal/build", "loader/state"},
	"internal/config": {"internal/auth", "internal/corpus", "internal/objects", "internal/tracing", "stream",
		"arrowout", "loader", "tokenizer"},

	"internal/demo/screen": {"internal/demo", "internal/tui", "internal/stats"},
	"internal/tui":         {},
	"internal/top":         {"internal/tui", "internal/api", "loader"},
	"internal/demo": {"internal/daemon", "internal/publishing", "internal/flightclient", "internal/stats",
		"internal/corpus"},
	"internal/stats": {"loader"},

	"internal/ledger":       {"internal/flightclient", "internal/api", "loader"},
	"internal/daemonfile":   {"internal/auth"},
	"internal/flightclient": {"internal/auth", "internal/api"},
	"internal/api":          {"loader"},

	"internal/documents":         {"internal/jsonlines", "internal/relatedness", "internal/simulation"},
	"internal/jsonlines":         {"tokenizer"},
	"internal/report":            {"internal/relatedness", "internal/simulation"},
	"internal/simulation":        {"loader/mixture", "packonline"},
	"internal/export":            {"internal/mds", "internal/flightclient", "loader"},
	"internal/mds":               {},
	"internal/inspect":           {"internal/corpus"},
	"internal/tokenfiles":        {},
	"internal/warc":              {},
	"internal/lengths/lengthsin": {"internal/columnfile", "loader/document"},
	"internal/runadmin": {"stream", "stream/daemonbus", "stream/runstate", "stream/docstream", "stream/publish",
		"loader", "packonline"},
	"internal/pulling": {"internal/api", "internal/corpus", "internal/objects", "internal/publishing", "stream",
		"stream/publish", "stream/pullrecord", "loader"},
	"internal/publishing": {"internal/corpus", "stream", "stream/publish", "stream/retention"},

	"internal/corpus": {"internal/corpus/archive", "internal/corpus/columnar", "internal/corpus/csvtable",
		"internal/corpus/jsonrecord", "internal/corpus/tokenids", "internal/corpus/hubcache", "internal/corpus/pipe",
		"internal/invalidutf8", "internal/objects"},
	"internal/corpus/archive": {"internal/corpus/compression", "internal/corpus/record", "internal/tokenfiles",
		"internal/warc"},
	"internal/corpus/columnar": {"internal/corpus/compression", "internal/corpus/record", "internal/columnfile",
		"internal/mds", "internal/tokenfiles"},
	"internal/corpus/csvtable":    {"internal/corpus/record"},
	"internal/corpus/jsonrecord":  {"internal/corpus/record"},
	"internal/corpus/tokenids":    {"internal/corpus/compression", "internal/corpus/record", "internal/tokenfiles"},
	"internal/corpus/record":      {"internal/corpus/jsonvalue"},
	"internal/corpus/compression": {},
	"internal/corpus/jsonvalue":   {},
	"internal/corpus/hubcache":    {},
	"internal/corpus/pipe":        {},

	"stream": {"stream/messages", "stream/streamcopy", "stream/conn", "stream/proxy", "stream/server",
		"loader/backend", "internal/auth"},
	"stream/docstream": {"stream/deadletter", "stream/feed", "stream/tokenstore", "stream",
		"internal/invalidutf8"},
	"stream/tokenstore":  {"internal/diskspace", "loader/docrecord"},
	"stream/deadletter":  {"stream"},
	"stream/casvalue":    {"stream"},
	"stream/mac":         {},
	"stream/planlog":     {"stream/casvalue", "stream/mac", "stream", "loader/planrecord"},
	"stream/lease":       {"stream/casvalue", "stream"},
	"stream/checkpoints": {"stream/planlog", "stream/casvalue", "stream"},
	"stream/retention":   {"stream/planlog", "stream/casvalue", "stream"},
	"stream/pullrecord":  {"stream/lease", "stream/casvalue", "stream"},
	"stream/daemonbus":   {"stream/mac", "stream"},
	"stream/runstate":    {"stream/lease", "stream/checkpoints", "stream/retention", "stream/planlog"},
	"stream/permissions": {"stream/lease", "stream/checkpoints", "stream/retention", "stream/pullrecord",
		"stream/daemonbus", "internal/auth"},
	"stream/publish":    {"stream"},
	"stream/conn":       {"internal/auth"},
	"stream/messages":   {"stream/conn"},
	"stream/feed":       {"stream/conn"},
	"stream/streamcopy": {"stream/messages", "stream/conn"},
	"stream/server":     {"stream/proxy", "internal/auth", "internal/connlimit", "internal/diskspace"},
	"stream/proxy":      {"internal/connlimit"},

	"arrowout": {"arrowout/internal/action", "arrowout/internal/batch", "arrowout/internal/session", "internal/api",
		"loader", "internal/auth",
		"internal/connlimit", "internal/logsample"},
	"arrowout/internal/action": {"arrowout/internal/batch", "arrowout/internal/caller", "arrowout/internal/request",
		"arrowout/internal/tally",
		"internal/api", "loader"},
	"arrowout/internal/batch": {"arrowout/internal/session", "internal/api", "internal/bufpool", "loader/assembly"},
	"arrowout/internal/session": {"arrowout/internal/refusal", "arrowout/internal/tally", "internal/auth",
		"internal/logsample", "loader/state"},
	"arrowout/internal/request": {"arrowout/internal/refusal", "loader"},
	"arrowout/internal/caller":  {"internal/auth"},
	"arrowout/internal/refusal": {"internal/auth", "loader/fault"},
	"arrowout/internal/tally":   {},
	"loader":                    {"loader/internal/cluster", "loader/follower", "loader/maintenance"},
	"loader/internal/cluster": {"loader/docrecord", "loader/internal/leader", "loader/internal/ranks",
		"loader/internal/jobspans"},
	"loader/internal/leader": {"loader/internal/feed", "loader/internal/replay", "loader/internal/forecast",
		"loader/internal/rendezvous"},
	"loader/internal/rendezvous": {"loader/state"},
	"loader/internal/forecast":   {"loader/planview", "loader/state"},
	"loader/follower": {"loader/assembly", "loader/diagnosis", "loader/internal/ranks",
		"loader/internal/jobspans"},
	"loader/assembly":          {"loader/planview", "loader/state"},
	"loader/diagnosis":         {"loader/census", "loader/state"},
	"loader/internal/ranks":    {"loader/census", "loader/state"},
	"loader/internal/jobspans": {"loader/state"},
	"loader/maintenance":       {"loader/internal/feed", "loader/internal/replay"},
	"loader/internal/feed":     {"loader/planview"},
	"loader/internal/replay":   {"loader/planview"},
	"loader/planview":          {"loader/planner", "loader/backend", "loader/internal/waiting"},
	"loader/internal/waiting":  {},
	"loader/state":             {"loader/planner", "loader/backend"},
	"loader/backend":           {"loader/document"},
	"loader/docrecord":         {"loader/document"},
	"loader/document":          {"loader/fault", "loader/plan", "loader/runconfig"},
	"loader/fault":             {},
	"loader/planner": {"loader/internal/codec", "loader/planrecord", "loader/plan", "loader/runconfig", "loader/mixture",
		"loader/filter", "packonline", "packonline/similarity", "shuffle"},
	"loader/filter": {},
	"loader/planrecord": {"loader/filter", "loader/internal/codec", "loader/plan", "loader/runconfig", "loader/mixture",
		"packonline"},
	"loader/plan":           {"loader/filter", "loader/mixture", "packonline", "packonline/similarity"},
	"loader/runconfig":      {"loader/filter", "loader/mixture", "packonline", "shuffle"},
	"loader/census":         {},
	"loader/internal/codec": {"packonline"},
	"loader/mixture":        {"loader/internal/codec", "packonline", "shuffle"},
	"tokenizer":             {"tokenizer/internal/definition", "tokenizer/internal/wordcache"},
	"packonline": {"packonline/similarity", "packonline/internal/bitset",
		"packonline/internal/calendar"},
	"packonline/internal/bitset":   {},
	"packonline/internal/calendar": {"packonline/internal/bitset"},
	"shuffle":                      {},

	"tokenizer/internal/definition": {"tokenizer/internal/fingerprint", "tokenizer/internal/norm",
		"tokenizer/internal/vocab", "tokenizer/internal/wordpiece", "tokenizer/internal/unigram",
		"tokenizer/internal/charsmap", "tokenizer/internal/trie", "tokenizer/internal/sentencepiece"},
	"tokenizer/internal/sentencepiece": {"tokenizer/internal/unigram", "tokenizer/internal/charsmap",
		"tokenizer/internal/norm", "tokenizer/internal/pretokenize", "tokenizer/internal/pairs"},
	"tokenizer/internal/wordpiece": {"tokenizer/internal/trie", "tokenizer/internal/ucd"},
	"tokenizer/internal/unigram":   {"tokenizer/internal/trie"},
	"tokenizer/internal/charsmap":  {"tokenizer/internal/trie"},
	"tokenizer/internal/trie":      {},
	"tokenizer/internal/fingerprint": {"tokenizer/internal/format", "tokenizer/internal/added",
		"tokenizer/internal/pretokenize"},
	"tokenizer/internal/format": {"tokenizer/internal/merge"},
	"tokenizer/internal/wordcache": {"tokenizer/internal/pretokenize", "tokenizer/internal/merge",
		"internal/cpufeature"},
	"tokenizer/internal/pretokenize": {"tokenizer/internal/pattern", "tokenizer/internal/ucd", "internal/cpufeature"},
	"tokenizer/internal/pattern":     {"tokenizer/internal/ucd"},
	"tokenizer/internal/added":       {"tokenizer/internal/ucd"},
	"tokenizer/internal/norm": {"tokenizer/internal/ucd", "tokenizer/internal/pairs", "tokenizer/internal/charsmap",
		"internal/cpufeature"},
	"tokenizer/internal/merge": {"tokenizer/internal/pairs"},
	"tokenizer/internal/pairs": {},
	"internal/cpufeature":      {},
	"tokenizer/internal/vocab": {},
	"tokenizer/internal/ucd":   {},

	"packonline/similarity": {"internal/cpufeature"},
	"internal/lengths":      {},
	"internal/objects":      {},
	"internal/relatedness":  {},
	"internal/invalidutf8":  {},
	"internal/auth":         {},
	"internal/logsample":    {},
	"internal/diskspace":    {},
	"internal/connlimit":    {"internal/logsample"},
	"internal/httplimit":    {"internal/connlimit", "internal/logsample"},
	"internal/build":        {"loader/planner"},
}

// standardOnly are packages that import only the standard library and packages that their arrows lead to.
var standardOnly = []string{
	"loader/census", "loader/internal/codec", "loader/runconfig", "loader/plan", "loader/planrecord",
	"loader/planner", "loader/mixture", "packonline", "packonline/similarity", "packonline/internal/bitset",
	"packonline/internal/calendar", "shuffle",
	"tokenizer/internal/ucd", "tokenizer/internal/pairs", "tokenizer/internal/norm", "tokenizer/internal/pattern",
	"tokenizer/internal/pretokenize", "tokenizer/internal/merge", "tokenizer/internal/added",
	"tokenizer/internal/wordcache", "tokenizer/internal/vocab", "tokenizer/internal/wordpiece",
	"tokenizer/internal/unigram", "tokenizer/internal/charsmap", "tokenizer/internal/trie",
}

// Imports outside tests point inward.
func TestImports_PointInward(t *testing.T) {
	t.Chdir(root)
	imports, err := readImports(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"loader", "packonline", "shuffle", "cmd/loaderd"} {
		if imports[p] == nil {
			t.Errorf("package %s was not found: the rule is not enforced", p)
		}
	}
	for _, v := range violations(imports) {
		t.Error(v)
	}
}

// given are the libraries that the program is built on.
var given = []string{"github.com/apache/arrow/go/v17", "github.com/nats-io/nats.go", "github.com/sugarme/tokenizer"}

// The program's own packages import each of the given libraries directly.
func TestProgram_ImportsGivenLibraries(t *testing.T) {
	t.Chdir(root)
	imports, err := readImports(".")
	if err != nil {
		t.Fatal(err)
	}
	program := reached(imports, "cmd/loaderd")
	for _, library := range given {
		uses := func(i string) bool { return i == library || strings.HasPrefix(i, library+"/") }
		if !slices.ContainsFunc(program, func(p string) bool { return slices.ContainsFunc(imports[p], uses) }) {
			t.Errorf("no package of the program imports %s", library)
		}
	}
}

// reached returns a package and the packages of the module that it imports, directly or not.
func reached(imports map[string][]string, from string) []string {
	list := []string{from}
	for at := 0; at < len(list); at++ {
		for _, i := range imports[list[at]] {
			if p, ours := strings.CutPrefix(i, module+"/"); ours && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

func TestImports_ViolationsAreDetected(t *testing.T) {
	t.Chdir(root)
	for _, test := range []struct {
		name    string
		imports map[string][]string
		want    []string
	}{
		{name: "inward", imports: map[string][]string{
			"cmd/loaderd": {"fmt", "loaderd/internal/daemon", "loaderd/packonline"},
			"stream":      {"loaderd/packonline", "github.com/nats-io/nats.go"}, "packonline": {"math/bits"},
			"internal/text": {"strings"}, "loader": {"loaderd/internal/text"},
		}},
		{name: "outward", imports: map[string][]string{"loader": {"loaderd/stream"}, "tokenizer": {"loaderd/loader"}},
			want: []string{"loader imports stream: want loader/internal/cluster, loader/follower, loader/maintenance",
				"tokenizer imports loader: want tokenizer/internal/definition, tokenizer/internal/wordcache"}},
		{name: "between edges", imports: map[string][]string{"stream": {"loaderd/arrowout"},
			"arrowout": {"loaderd/tokenizer"}},
			want: []string{"arrowout imports tokenizer: want arrowout/internal/action, arrowout/internal/batch, " +
				"arrowout/internal/session, internal/api, loader, internal/auth, internal/connlimit, internal/logsample",
				"stream imports arrowout: want stream/messages, stream/streamcopy, stream/conn, stream/proxy, stream/server, " +
					"loader/backend, internal/auth"}},
		{name: "wiring from below", imports: map[string][]string{"stream": {"loaderd/internal/config"},
			"loader": {"loaderd/cmd/loaderd"}},
			want: []string{"loader imports cmd/loaderd: want loader/internal/cluster, loader/follower, loader/maintenance",
				"stream imports internal/config: want stream/messages, stream/streamcopy, stream/conn, stream/proxy, " +
					"stream/server, loader/backend, internal/auth"}},
		{name: "not standard", imports: map[string][]string{"packonline": {"loaderd/internal/text",
			"golang.org/x/sync/errgroup"}, "shuffle": {"loaderd/packonline", "github.com/cespare/xxhash/v2"}},
			want: []string{"packonline imports golang.org/x/sync/errgroup: want the standard library only",
				"packonline imports loaderd/internal/text: want the standard library only",
				"shuffle imports github.com/cespare/xxhash/v2: want the standard library only",
				"shuffle imports loaderd/packonline: want the standard library only"}},
		{name: "a helper reaches out", imports: map[string][]string{"internal/text": {"loaderd/loader"}},
			want: []string{"internal/text imports loader: want nothing of loaderd"}},
		{name: "a harness", imports: map[string][]string{"internal/natstest": {"loaderd/stream"}}},
		{name: "a harness outside tests", imports: map[string][]string{"stream": {"loaderd/internal/natstest"},
			"internal/text": {"loaderd/internal/natstest"}},
			want: []string{"internal/text imports internal/natstest: want nothing of loaderd",
				"stream imports internal/natstest: want stream/messages, stream/streamcopy, stream/conn, stream/proxy, " +
					"stream/server, loader/backend, internal/auth"}},
		{name: "a harness of a package", imports: map[string][]string{
			"tokenizer/internal/tokentest": {"loaderd/tokenizer/internal/merge"},
			"tokenizer":                    {"loaderd/tokenizer/internal/tokentest"}},
			want: []string{"tokenizer imports tokenizer/internal/tokentest: want tokenizer/internal/definition, " +
				"tokenizer/internal/wordcache"}},
		{name: "a package without a place", imports: map[string][]string{"metrics": {"fmt"}},
			want: []string{"metrics has no place in the import rule: add it to arrows"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, violations(test.imports)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// violations returns what breaks the rule. Packages below internal without arrows are of two kinds. Test harnesses
// are named ...test, import what they need, and only tests may import them, also below another package's internal.
// Helpers import nothing of the module, and all packages but the pure ones may import them.
func violations(imports map[string][]string) (bad []string) {
	for _, p := range slices.Sorted(maps.Keys(imports)) {
		_, placed := arrows[p]
		if isHarness(p) {
			continue
		}
		if !placed && !strings.HasPrefix(p, "internal/") {
			bad = append(bad, p+" has no place in the import rule: add it to arrows")
			continue
		}
		for _, i := range slices.Sorted(slices.Values(imports[p])) {
			inside, ours := strings.CutPrefix(i, module+"/")
			first, _, _ := strings.Cut(i, "/")
			switch {
			case slices.Contains(standardOnly, p):
				if ours && !slices.Contains(arrows[p], inside) || !ours && strings.Contains(first, ".") {
					bad = append(bad, fmt.Sprintf("%s imports %s: want the standard library only", p, i))
				}
			case ours && !mayImport(p, inside):
				want := strings.Join(arrows[p], ", ")
				if want == "" {
					want = "nothing of " + module
				}
				bad = append(bad, fmt.Sprintf("%s imports %s: want %s", p, inside, want))
			}
		}
	}
	return bad
}

func mayImport(p, other string) bool {
	if _, placed := arrows[other]; !placed {
		_, placed := arrows[p]
		return placed && strings.HasPrefix(other, "internal/") && !isHarness(other)
	}
	return slices.ContainsFunc(arrows[p], func(next string) bool { return next == other || mayImport(next, other) })
}

func isHarness(p string) bool {
	return (strings.HasPrefix(p, "internal/") || strings.Contains(p, "/internal/")) && strings.HasSuffix(p, "test")
}

// readImports returns the imports of the files of each package below root, without tests. Packages are named by
// folder.
func readImports(root string) (map[string][]string, error) {
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" ||
			isModule(file)) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := path.Dir(filepath.ToSlash(file))
		if imports[folder] == nil {
			imports[folder] = []string{}
		}
		for _, i := range parsed.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return fmt.Errorf("read imports of %s: %w", file, err)
			}
			imports[folder] = append(imports[folder], p)
		}
		return nil
	})
	return imports, err
}

// isModule reports whether a folder has a go.mod.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}
