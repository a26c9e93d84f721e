package simulatecmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/simulation"
)

// runSimulate runs the command on the given input and returns its output.
func runSimulate(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := NewSimulateCmd()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestSimulate_PlacementsMatchReport compares a report with the sequences that the same run wrote to a file.
func TestSimulate_PlacementsMatchReport(t *testing.T) {
	dir := t.TempDir()
	input, rows := filepath.Join(dir, "lengths"), filepath.Join(dir, "rows.tsv")
	if err := os.WriteFile(input, []byte("14\n7\n 5 \r\n2\n3"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := runSimulate(t, "", "--method", "bfd", "--buckets", "8", "--pool", "0", "--seed", "3", "--placements",
		rows, input)
	if err != nil {
		t.Fatal(err)
	}
	var r simulation.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%q: %v", out, err)
	}
	placed, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	if want := "8\t0:0:8\n8\t0:8:6 3:0:2\n8\t2:0:5 4:0:3\n8\t1:0:7\n"; string(placed) != want {
		t.Errorf("rows are %q, want %q", placed, want)
	}
	if r.Documents != 5 || r.Sequences != 4 || r.PaddingTokens != 1 || r.Detail["pool"] != 5.0 ||
		r.Detail["max_age"] != 0.0 || r.Detail["seed"] != 3.0 {
		t.Errorf("the report is %s", out)
	}
}

func TestSimulate_EmptyInput(t *testing.T) {
	for _, pool := range []string{"0", "5"} {
		out, err := runSimulate(t, "", "--length", "8", "--pool", pool)
		if err != nil || !strings.Contains(out, `"documents":0,`) || !strings.Contains(out, `"padding_ratio":0,`) {
			t.Fatalf("%q, %v", out, err)
		}
	}
}

func TestSimulate_RefusesInvalidInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lengths")
	if err := os.WriteFile(file, []byte("12\n7 8\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, stdin, want string
		args              []string
	}{
		{"a word", "5\nx\n", `standard input:2: "x": want a length in tokens, 1 to 2147483647`, nil},
		{"two numbers", "", file + `:2: "7 8": want`, []string{file}},
		{"an empty line", "5\n\n6\n", `standard input:2: ""`, nil},
		{"zero", "0\n", `standard input:1: "0"`, nil},
		{"a negative number", "1\n-4\n", `standard input:2: "-4"`, nil},
		{"2^31", "2147483648\n", `standard input:1: "2147483648"`, nil},
		{"2^64 + 1", "18446744073709551617\n", `standard input:1: "18446744073709551617"`, nil},
		{"a fraction", "1.5\n", `standard input:1: "1.5"`, nil},
		{"a line without an end", strings.Repeat("0", 1<<21) + "7", `standard input:1: "0000`, nil},
		{"an absent file", "", "absent: no such file", []string{filepath.Join(dir, "absent")}},
		{"an absent folder", "1\n", "write placements: open", []string{"--placements", filepath.Join(dir, "absent", "rows")}},
		{"an unknown method", "1\n", "method: nope: want one of [concat ", []string{"--method", "nope"}},
		{"another method's flags", "1\n",
			"--overlap: method bfd-m does not use it; these do: seamless\n--padding-threshold: method bfd-m",
			[]string{"--method", "bfd-m", "--overlap", "0.1", "--padding-threshold", "0.5", "--extra", "1"}},
		{"an atom that is none", "1\n", "atom: 3: want one of [0.25 0.5 1 2 4] rows", []string{"--atom", "3"}},
		{"an atom that does not divide", "1\n", "atom: 0.25: want an atom of 2 or more whole tokens; a row has 6",
			[]string{"--atom", "0.25", "--length", "6"}},
		{"an overlap out of range", "1\n", "overlap: 1.5: want a share of the row",
			[]string{"--method", "seamless", "--overlap", "1.5"}},
		{"a column of a text file", "1\n", "--column: want a file that ends in .parquet", []string{"--column", "n"}},
		{"a Parquet file without a column", "", "x.parquet: want --column", []string{"x.parquet"}},
		{"two flags for the row length", "1\n", "[buckets length]", []string{"--buckets", "8"}},
		{"bad bounds", "1\n", "pool: -1: want 0 (the whole input) or 1 to 2^30 pieces\nmax_age: -1: want",
			[]string{"--pool", "-1", "--max-age", "-1"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			out, err := runSimulate(t, x.stdin, append([]string{"--length", "8"}, x.args...)...)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Fatalf("error is %v, want %q", err, x.want)
			}
			if strings.HasPrefix(out, "{") {
				t.Fatalf("it reports %s", out)
			}
		})
	}
	if _, err := runSimulate(t, "1\n"); err == nil || !strings.Contains(err.Error(), "[length buckets]") {
		t.Fatalf("without a row length the error is %v", err)
	}
	for buckets, want := range map[string]string{
		"8,4": "buckets[1]: 4: want row lengths in ascending order",
		"4,4": "buckets[1]: 4: want row lengths in ascending order",
		"0,4": "buckets[0]: 0: want a row length of 2 to", "-3": "buckets[0]: -3: want a row length",
	} {
		if _, err := runSimulate(t, "1\n", "--method", "bucketllm", "--buckets", buckets); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("with buckets %s the error is %v, want %s", buckets, err, want)
		}
	}
	if _, err := runSimulate(t, "1\n", "--method", "bfd", "--buckets", "4,8"); err == nil ||
		!strings.Contains(err.Error(), "buckets: [4 8]: want exactly one row length") {
		t.Fatalf("with two row lengths the error is %v", err)
	}
}
