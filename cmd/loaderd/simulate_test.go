package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

// runSimulate runs the command on the given input and returns its output.
func runSimulate(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := newSimulateCmd()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func lengthLines(in []int32) string {
	var b strings.Builder
	for _, n := range in {
		fmt.Fprintln(&b, n)
	}
	return b.String()
}

// TestSimulateReport checks every field of the report on the example of the packing paper's first figure.
func TestSimulateReport(t *testing.T) {
	for method, want := range map[string]string{
		"bfd": `{"method":"bfd","documents":5,"tokens":31,"sequences":4,"slots":32,"padding_tokens":1,"dropped_tokens":0,
			"repeated_tokens":0,"truncated_documents":1,"padding_ratio":0.03125,"truncation_ratio":0.2,"concatenation_ratio":1.25,
			"age_max":4,"age_median":2,"pool_max":5,"buckets":[{"length":8,"sequences":4}],
			"detail":{"pool":5,"max_age":0,"seed":3,"flush_pieces":5,"flush_sequences":3,"flush_padding_tokens":1}}`,
		"concat": `{"method":"concat","documents":5,"tokens":31,"sequences":4,"slots":32,"padding_tokens":1,"dropped_tokens":0,
			"repeated_tokens":0,"truncated_documents":3,"padding_ratio":0.03125,"truncation_ratio":0.6,"concatenation_ratio":1.25,
			"age_max":2,"age_median":1,"pool_max":3,"buckets":[{"length":8,"sequences":4}],
			"detail":{"pool":5,"max_age":0,"seed":3,"flush_pieces":3,"flush_sequences":1,"flush_padding_tokens":1}}`,
	} {
		for _, rowLength := range []string{"--length=8", "--buckets=8"} {
			have, err := runSimulate(t, "14\n7\n 5 \r\n2\n3", "--method", method, rowLength, "--pool", "0", "--seed", "3")
			if err != nil {
				t.Fatal(err)
			}
			var h, w map[string]any
			if err := json.Unmarshal([]byte(have), &h); err != nil || strings.Count(have, "\n") != 1 {
				t.Fatalf("%q: %v", have, err)
			}
			if err := json.Unmarshal([]byte(want), &w); err != nil {
				t.Fatal(err)
			}
			seconds, perSecond := h["seconds"].(float64), h["documents_per_second"].(float64)
			if seconds <= 0 || math.Abs(perSecond*seconds-5) > 1e-6 {
				t.Errorf("%s: %v seconds at %v documents a second", method, seconds, perSecond)
			}
			delete(h, "seconds")
			delete(h, "documents_per_second")
			if fmt.Sprint(h) != fmt.Sprint(w) {
				t.Errorf("%s %s reports\n%v, want\n%v", method, rowLength, h, w)
			}
		}
	}
}

// TestSimulatePlacements puts documents together again from the placements and compares the sums with the report.
func TestSimulatePlacements(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 7))
	in := lengths.LogNormal(20_000, 4)
	for i := range in {
		if r.IntN(100) == 0 {
			in[i] = 1 + r.Int32N(20)
		}
	}
	input, rows := filepath.Join(dir, "lengths"), filepath.Join(dir, "rows.tsv")
	if err := os.WriteFile(input, []byte(lengthLines(in)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, method := range packonline.Methods() {
		for _, pool := range []string{"0", "1", "300"} {
			out, err := runSimulate(t, "", "--method", method, "--length", "512", "--pool", pool, "--max-age", "900", "--placements", rows, input)
			if err != nil {
				t.Fatal(err)
			}
			var s simulation
			if err := json.Unmarshal([]byte(out), &s); err != nil {
				t.Fatal(err)
			}
			checkPlacements(t, rows, in, &s)
		}
	}
}

func checkPlacements(t *testing.T, file string, in []int32, s *simulation) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done, pieces := make([]int32, len(in)), make([]int, len(in))
	var sequences, slots, padding, tokens, truncated int64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		length, row, tab := strings.Cut(lines.Text(), "\t")
		left := int64(512)
		for piece := range strings.SplitSeq(row, " ") {
			var doc int
			var start, n int32
			if _, err := fmt.Sscanf(piece, "%d:%d:%d", &doc, &start, &n); err != nil || done[doc] != start || n < 1 {
				t.Fatalf("line %d: %q: %v; %d tokens of the document are out", sequences+1, lines.Text(), err, done[doc])
			}
			done[doc] += n
			pieces[doc]++
			left -= int64(n)
		}
		if !tab || length != "512" || left < 0 {
			t.Fatalf("line %d: %q", sequences+1, lines.Text())
		}
		sequences++
		slots += 512
		padding += left
	}
	for i, n := range in {
		tokens += int64(n)
		if pieces[i] > 1 {
			truncated++
		}
	}
	if !slices.Equal(done, in) {
		t.Fatal("the placements are not the documents")
	}
	have := []int64{s.Documents, s.Tokens, s.Sequences, s.Slots, s.PaddingTokens, s.TruncatedDocuments, s.Buckets[0].Sequences}
	if want := []int64{int64(len(in)), tokens, sequences, slots, padding, truncated, sequences}; !slices.Equal(have, want) {
		t.Fatalf("%s reports %v, the placements say %v", s.Method, have, want)
	}
	if s.Tokens+s.RepeatedTokens-s.DroppedTokens+s.PaddingTokens != s.Slots || s.AgeMax > 900 || s.AgeMedian > s.AgeMax {
		t.Fatalf("%+v", s)
	}
}

func TestSimulateNothing(t *testing.T) {
	for _, pool := range []string{"0", "5"} {
		out, err := runSimulate(t, "", "--length", "8", "--pool", pool)
		if err != nil || !strings.Contains(out, `"documents":0,`) || !strings.Contains(out, `"padding_ratio":0,`) {
			t.Fatalf("%q, %v", out, err)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
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
		{"an unknown method", "1\n", "method: nope: want one of [concat bfd]", []string{"--method", "nope"}},
		{"two ways to say it", "1\n", "[buckets length]", []string{"--buckets", "8"}},
		{"bad bounds", "1\n", "pool: -1: want 0 (the whole input) or 1 to 2^30 pieces\nmax_age: -1: want", []string{"--pool", "-1", "--max-age", "-1"}},
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
	if _, err := runSimulate(t, "1\n", "--buckets", "4,8"); err == nil || !strings.Contains(err.Error(), "buckets: [4 8]: want exactly one row length") {
		t.Fatalf("with two row lengths the error is %v", err)
	}
}

// FuzzReadLengths reads anything and compares what is accepted with its lines.
func FuzzReadLengths(f *testing.F) {
	for _, s := range []string{"", "1\n2\n", "7", " 8 \r\n", "0\n", "2147483647\n2147483648", "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		have, err := readLengths(bytes.NewReader(in), "fuzz")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "read lengths: fuzz:") {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if want := bytes.Fields(in); len(want) != len(have) {
			t.Fatalf("%q is read as %v", in, have)
		}
		for i, word := range bytes.Fields(in) {
			if w := strings.TrimLeft(string(word), "0"); w != fmt.Sprint(have[i]) {
				t.Fatalf("%q is read as %d", word, have[i])
			}
		}
	})
}

func BenchmarkReadLengths(b *testing.B) {
	in := lengthLines(lengths.LogNormal(1_000_000, 1))
	for b.Loop() {
		if _, err := readLengths(strings.NewReader(in), "benchmark"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "lengths/s")
}
