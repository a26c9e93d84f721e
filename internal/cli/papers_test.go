package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/simulation"
	"loaderd/internal/testscale"
)

// papersCommands returns the loaderd commands of docs/results/papers.md, without comments.
func papersCommands(t *testing.T) (page string, commands []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "results", "papers.md"))
	if err != nil {
		t.Fatal(err)
	}
	page = string(b)
	for _, line := range regexp.MustCompile(`(?m)^    (loaderd .*)$`).FindAllStringSubmatch(page, -1) {
		command, _, _ := strings.Cut(line[1], "  #")
		commands = append(commands, strings.TrimSpace(command))
	}
	return page, commands
}

// Every loaderd command on the page has subcommands and flags that exist.
func TestPapersPage_CommandsParse(t *testing.T) {
	_, commands := papersCommands(t)
	if len(commands) < 10 {
		t.Fatalf("the page has %d commands", len(commands))
	}
	for _, command := range commands {
		for part := range strings.SplitSeq(command, "|") {
			cmd, rest, err := NewRootCmd().Find(strings.Fields(part)[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: %v", part, err)
			}
		}
	}
}

// The command below each table prints the figures in the rows of that table.
func TestPapersPage_CommandsPrintTableFigures(t *testing.T) {
	page, commands := papersCommands(t)
	execute := func(command string, in []byte) *bytes.Buffer {
		t.Helper()
		var out bytes.Buffer
		root := NewRootCmd()
		root.SetArgs(strings.Fields(command)[1:])
		root.SetIn(bytes.NewReader(in))
		root.SetOut(&out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return &out
	}
	quality := func(r *simulation.Result) []float64 {
		return []float64{100 * r.PaddingRatio, 100 * r.TruncationRatio, r.ConcatenationRatio}
	}
	const (
		million = "loaderd gen-lengths --dist fineweb-edu -n 1000000"
		buckets = "--buckets 1024,2048,4096,8192,16384"
	)
	drawn := map[string][]byte{}
	slow := []string{"BucketLLM, S = 100000", "bucket (ours", "2048 | 1976"}
	for _, x := range []struct {
		lengths, simulate string // the command
		row               string // the beginning of a row of the table
		cells             []int  // its figures
		figures           func(r *simulation.Result) []float64
	}{
		{million, "--method bucketllm " + buckets + " --pool 100000 --max-age 0 --padding-threshold 0.025",
			"BucketLLM, S = 100000", []int{2, 4, 6}, quality},
		{million, "--method bucket " + buckets + " --pool 4096 --max-age 8192", "bucket (ours", []int{2, 4, 6}, quality},
		{million, "--method bucket " + buckets + " --pool 256 --max-age 1024", "256, 1024 ", []int{1, 2, 3}, quality},
		{million, "--method bucket --length 2048 --pool 4096 --max-age 16384", "2048 | 1976", []int{1, 3},
			func(r *simulation.Result) []float64 {
				return []float64{float64(r.PaddingTokens), 100 * r.PaddingRatio}
			}},
		{"loaderd gen-lengths --dist pubmed", "--method seamless --length 2048 --pool 0", "pubmed, dropped |", []int{3},
			func(r *simulation.Result) []float64 { return []float64{float64(r.DroppedTokens)} }},
		{"loaderd gen-lengths --dist wikitext", "--method pad --length 64", "64, 256", []int{4},
			func(r *simulation.Result) []float64 { return []float64{float64(2 * (r.Sequences / 256))} }},
		{"loaderd gen-lengths --dist constant", "--method bucket " + buckets + " --pool 4096 --max-age 16384",
			"constant, 1024 to 16384 | bucket ", []int{2, 3, 5}, quality},
	} {
		command := x.lengths + " | loaderd simulate " + x.simulate
		if !slices.Contains(commands, command) {
			t.Errorf("the page has no command %s", command)
			continue
		}
		if !testscale.All() && slices.Contains(slow, x.row) {
			continue
		}
		if drawn[x.lengths] == nil {
			drawn[x.lengths] = execute(x.lengths, nil).Bytes()
		}
		var r simulation.Result
		if err := json.Unmarshal(execute("loaderd simulate "+x.simulate, drawn[x.lengths]).Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(x.row) + `.*`).FindString(page)
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		for i, have := range x.figures(&r) {
			want := strings.TrimSuffix(cells[x.cells[i]], " %")
			_, digits, _ := strings.Cut(want, ".")
			if have := fmt.Sprintf("%.*f", len(digits), have); have != want {
				t.Errorf("%s: %s, the page has %s in: %s", command, have, want, line)
			}
		}
	}
}
