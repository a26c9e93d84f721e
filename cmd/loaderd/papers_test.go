package main

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
)

// papersCommands returns the commands of docs/results/papers.md line by line, with variables filled in and without comments.
func papersCommands(t *testing.T) (page string, commands []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "results", "papers.md"))
	if err != nil {
		t.Fatal(err)
	}
	page = string(b)
	variables := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^    (loaderd .*|[A-Z]+=.*)$`).FindAllStringSubmatch(page, -1) {
		command, _, _ := strings.Cut(line[1], "  #")
		command = strings.TrimSpace(os.Expand(command, func(name string) string { return variables[name] }))
		if name, value, set := strings.Cut(command, "="); set && !strings.HasPrefix(command, "loaderd ") {
			variables[name] = value
			continue
		}
		commands = append(commands, command)
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
		for _, part := range strings.Split(command, "|") {
			part, _, _ = strings.Cut(part, ">")
			cmd, rest, err := newRootCmd().Find(strings.Fields(part)[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: %v", part, err)
			}
		}
	}
}

// The commands below the tables of bucket print the figures that stand in them.
func TestPapersPage_CommandsGiveTheFigures(t *testing.T) {
	page, commands := papersCommands(t)
	t.Chdir(t.TempDir())
	execute := func(command string) *bytes.Buffer {
		t.Helper()
		var out bytes.Buffer
		root := newRootCmd()
		root.SetArgs(strings.Fields(command)[1:])
		root.SetOut(&out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return &out
	}
	const generate, file = "loaderd gen-lengths --dist fineweb-edu -n 1000000", "lengths"
	if !slices.Contains(commands, generate+" > "+file) {
		t.Fatalf("the page has no command %s", generate)
	}
	if err := os.WriteFile(file, execute(generate).Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		command, row string
		cells        [3]int // of padding, truncation and concatenation
	}{
		{"simulate --method bucketllm --buckets 1024,2048,4096,8192,16384 --pool 100000 --padding-threshold 0.025 --max-age 0 lengths", "BucketLLM, S", [3]int{2, 4, 6}},
		{"simulate --method bucket --buckets 1024,2048,4096,8192,16384 --pool 4096 --max-age 8192 lengths", "bucket (ours", [3]int{2, 4, 6}},
		{"simulate --method bucket --buckets 1024,2048,4096,8192,16384 --pool 256 --max-age 1024 lengths", "256, 1024 ", [3]int{1, 2, 3}},
	} {
		written := false
		for _, command := range commands {
			if command != "loaderd "+x.command {
				continue
			}
			written = true
			var r simulation.Result
			if err := json.Unmarshal(execute(command).Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(x.row) + `.*`).FindString(page)
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			for i, have := range []float64{100 * r.PaddingRatio, 100 * r.TruncationRatio, r.ConcatenationRatio} {
				want := strings.TrimSuffix(cells[x.cells[i]], " %")
				_, digits, _ := strings.Cut(want, ".")
				if have := fmt.Sprintf("%.*f", len(digits), have); have != want {
					t.Errorf("%s: %s, the page has %s in: %s", command, have, want, line)
				}
			}
		}
		if !written {
			t.Errorf("the page has no command loaderd %s", x.command)
		}
	}
}
