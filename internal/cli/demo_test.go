package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/daemonfile"
	"loaderd/internal/demo"
	"loaderd/internal/flightclient"
)

// demoFiles writes n text files, one empty file and one binary file. It returns the folder, and the size in bytes and
// in gpt2 tokens of the text.
func demoFiles(t *testing.T, n int) (folder string, size, tokens int64) {
	t.Helper()
	folder = t.TempDir()
	model, err := gpt2()
	if err != nil {
		t.Fatal(err)
	}
	encoder := model.NewEncoder()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		text := strings.Repeat(fmt.Sprintf("This is document %d of a small corpus.\n", i), 1+i%7)
		write(fmt.Sprintf("%03d.txt", i), text)
		size += int64(len(text))
		tokens += int64(len(encoder.Encode(nil, []byte(text)))) + 1 // plus the end-of-document token
	}
	write("empty.txt", "")
	write("image.png", "\x89PNG\x00\x00")
	return folder, size, tokens
}

// runDemo runs the command until it exits.
func runDemo(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var out, err bytes.Buffer
	code = Run(t.Context(), append([]string{"demo"}, args...), nil, &out, &err)
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return code, out.String(), err.String()
}

func TestDemo_SummaryFigures(t *testing.T) {
	folder, size, tokens := demoFiles(t, 100)
	for _, test := range []struct {
		name     string
		args     []string
		world    int
		method   string
		rows     int
		steps    bool // more than one
		complete int64
	}{
		{"defaults", nil, 2, "bucket", 64, false, 100},
		{"four readers", []string{"--world", "4", "--method", "concat", "--length", "128", "--rows", "8", "--set",
			"shuffle.window=16"}, 4, "concat", 8, true, 100},
		{"several row lengths", []string{"--set", "packing.buckets=[64,128,256]", "--set", "steps.tokens=512", "--set",
			"packing.pool=32",
			"--set", "shuffle.window=4"}, 2, "bucket", 8, true, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runDemo(t, append(test.args, "--json", folder)...)
			if code != command.ExitOK {
				t.Fatalf("exit status %d: %s", code, stderr)
			}
			var s demo.Summary
			if err := json.Unmarshal([]byte(stdout), &s); err != nil {
				t.Fatalf("%v in\n%s", err, stdout)
			}
			if !s.Complete || !s.ReadersAgreed || s.Readers != test.world || s.Method != test.method ||
				s.StepRows[0] != test.rows {
				t.Errorf("%+v", s)
			}
			if s.Documents != 100 || s.Packed != 100 || s.LeftOut != 2 || s.TextBytes != size {
				t.Errorf("%d documents, %d packed, %d left out, %d bytes, want 100, 100, 2, %d", s.Documents, s.Packed, s.LeftOut,
					s.TextBytes, size)
			}
			if s.Tokens != tokens || s.TokensRead != tokens {
				t.Errorf("%d tokens, %d read, want %d of both", s.Tokens, s.TokensRead, tokens)
			}
			if slots := s.Rows * int64(s.RowLengths[0]); len(s.RowLengths) == 1 && (s.Rows != int64(s.Steps)*int64(test.rows) ||
				slots-tokens != int64(s.PaddingRatio*float64(slots)+0.5)) {
				t.Errorf("%d rows of %d in %d steps at a padding of %v hold %d tokens", s.Rows, s.RowLengths, s.Steps,
					s.PaddingRatio, tokens)
			}
			checkKills(t, s)
			if (s.Steps > 1) != test.steps || s.FirstBatchSeconds <= 0 || s.FirstBatchSeconds > s.Seconds ||
				s.PeakMemory < 1<<20 {
				t.Errorf("%d steps, first batch after %v of %v s, memory %d", s.Steps, s.FirstBatchSeconds, s.Seconds, s.PeakMemory)
			}
		})
	}
}

// checkKills checks that the demo killed what it promises, and compared every byte of the run once and those after the
// checkpoint twice.
func checkKills(t *testing.T, s demo.Summary) {
	t.Helper()
	want := []string{"daemon"}
	if s.Steps >= 20 {
		want = []string{"rank", "daemon"}
	}
	var got []string
	slots := s.Rows * int64(s.RowLengths[0])
	for _, k := range s.Kills {
		got = append(got, k.Process)
		if k.Process == "rank" {
			slots += int64(k.Step-k.Resumed) * int64(s.StepRows[0]*s.RowLengths[0])
			if k.Step-k.Resumed != 4 {
				t.Errorf("the job resumed at step %d after %d, want four steps earlier", k.Resumed, k.Step)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("killed %v, want %v", got, want)
	}
	if len(s.RowLengths) == 1 && s.ComparedBytes != 6*slots {
		t.Errorf("compared %d bytes, want %d", s.ComparedBytes, 6*slots)
	}
}

func TestDemo_NoKillReadsOnce(t *testing.T) {
	folder, _, _ := demoFiles(t, 10)
	code, stdout, stderr := runDemo(t, "--no-kill", "--json", folder)
	var s demo.Summary
	if err := json.Unmarshal([]byte(stdout), &s); code != command.ExitOK || err != nil {
		t.Fatalf("exit status %d, %v: %s", code, err, stderr)
	}
	if !s.Complete || len(s.Kills) > 0 || s.ComparedBytes > 0 {
		t.Errorf("%+v", s)
	}
}

// An unexpected end of the daemon is reported, with its cause.
func TestDemo_ReportsEndOfDaemon(t *testing.T) {
	folder, _, _ := demoFiles(t, 3)
	in, out := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- Run(t.Context(), []string{"demo", "--stay", "--json", folder}, nil, out, &stderr)
		out.Close()
	}()
	var s demo.Summary
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&s); err != nil {
		t.Fatal(err)
	}
	a, err := daemonfile.Read(s.Folder)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(a.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != command.ExitFailed ||
		!strings.Contains(stderr.String(), "the daemon ended: signal: killed") {
		t.Errorf("exit status %d: %s", code, stderr.String())
	}
}

// The commands that the summary names can be run.
func TestDemo_NamedCommandsExist(t *testing.T) {
	folder, _, _ := demoFiles(t, 1)
	_, stdout, _ := runDemo(t, folder)
	found := 0
	for line := range strings.Lines(stdout) {
		args := strings.Fields(line)
		if len(args) < 2 || args[0] != "loaderd" {
			continue
		}
		found++
		cmd, rest, err := NewRootCmd().Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || !cmd.Runnable() {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	if found < 2 {
		t.Errorf("%d commands in\n%s", found, stdout)
	}
}

func TestDemo_TextSummary(t *testing.T) {
	folder, _, _ := demoFiles(t, 20)
	more, _, _ := demoFiles(t, 1)
	code, stdout, stderr := runDemo(t, "--limit", "10", folder, more)
	if code != command.ExitOK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, want := range []string{"documents    10 ", "first batch", "agreed on every step", "loaderd publish " + folder +
		" " + more + "\n",
		`flight.connect("grpc://127.0.0.1:8815")`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Errorf("escape sequences outside a terminal: %q", stdout)
	}
}

func TestDemo_KeepStoresDataFolder(t *testing.T) {
	folder, _, _ := demoFiles(t, 3)
	data := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := runDemo(t, "--json", "--keep", data, folder); code != command.ExitOK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	if held, err := os.ReadDir(data); err != nil || len(held) == 0 {
		t.Errorf("folder holds %v, %v", held, err)
	}
	if code, _, stderr := runDemo(t, "--json", "--keep", data, folder); code != command.ExitFailed ||
		!strings.Contains(stderr, "is not empty") {
		t.Errorf("again: exit status %d: %s", code, stderr)
	}
}

// With --stay the steps can be read again at the address in the summary, until the command is stopped.
func TestDemo_StayServesUntilStopped(t *testing.T) {
	folder, _, tokens := demoFiles(t, 20)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		code := Run(ctx, []string{"demo", "--stay", "--json", folder}, nil, out, &stderr)
		out.Close()
		ended <- code
	}()
	var s demo.Summary
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&s); err != nil {
		t.Fatal(err)
	}
	client, err := flightclient.Open(s.Flight, flightclient.Options{DataDir: s.Folder})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	read := int64(0)
	if err := client.Read(ctx, api.Ticket{World: 1}, func(b flightclient.Batch) error {
		read += b.Meta.Tokens
		return nil
	}); err != nil || read != tokens {
		t.Errorf("read %d tokens, %v, want %d", read, err, tokens)
	}
	select {
	case code := <-ended:
		t.Fatalf("ended without a signal with exit status %d", code)
	default:
	}
	cancel()
	if code := <-ended; code != command.ExitOK {
		t.Errorf("exit status %d: %s", code, stderr.String())
	}
}

// An interrupted demo reports its progress and leaves no files behind.
func TestDemo_InterruptReportsProgressAndCleansUp(t *testing.T) {
	folder, _, _ := demoFiles(t, 20)
	for _, after := range []time.Duration{0, 300 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if after == 0 {
				cancel()
			} else {
				defer time.AfterFunc(after, cancel).Stop()
			}
			var stdout, stderr bytes.Buffer
			code := Run(ctx, []string{"demo", "--json", folder}, nil, &stdout, &stderr)
			var s demo.Summary
			if err := json.Unmarshal(stdout.Bytes(), &s); err != nil {
				t.Fatalf("%v in %q, stderr %s", err, stdout.String(), stderr.String())
			}
			if s.Complete != (code == command.ExitOK) || s.Complete && after == 0 || !s.Complete &&
				!strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("exit status %d, complete %v, stderr %s", code, s.Complete, stderr.String())
			}
			if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestDemo_RefusesInvalidArguments(t *testing.T) {
	folder, _, _ := demoFiles(t, 1)
	none := t.TempDir()
	binary := t.TempDir()
	if err := os.WriteFile(filepath.Join(binary, "x"), make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"missing path", []string{filepath.Join(none, "absent")}, command.ExitFailed, "no such file"},
		{"empty folder", []string{none}, command.ExitFailed, "no file in " + none},
		{"nothing but binaries", []string{binary}, command.ExitFailed, "holds no text (1 files left out"},
		{"standard input", []string{"-"}, command.ExitUsage, "not standard input"},
		{"uneven world", []string{"--world", "3", folder}, command.ExitUsage, "divides the 64 rows"},
		{"no readers", []string{"--world", "0", folder}, command.ExitUsage, "--world 0"},
		{"negative limit", []string{"--limit", "-1", folder}, command.ExitUsage, "--limit -1"},
		{"bad settings", []string{"--length", "1", "--method", "best", folder}, command.ExitUsage, "2 problems"},
		{"a remote server", []string{"--set", "stream.url=nats://127.0.0.1:1", folder}, command.ExitUsage,
			"its own NATS server"},
		{"address in use", []string{"--set", "flight.listen=203.0.113.1:1", "--set", "flight.insecure=true", folder},
			command.ExitFailed, "203.0.113.1:1"},
		{"folder that cannot be made", []string{"--keep", filepath.Join(binary, "x", "y"), folder}, command.ExitFailed,
			"make data folder"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runDemo(t, append(test.args, "--json")...)
			if code != test.code || !strings.Contains(stderr, test.want) || stdout != "" {
				t.Errorf("exit status %d, want %d; stdout %q; stderr %q, want %q", code, test.code, stdout, stderr, test.want)
			}
		})
	}
}

var errWrite = errors.New("no room")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errWrite }
