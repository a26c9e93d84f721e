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
	"strings"
	"testing"
	"time"
)

// tokenize runs the command on standard input.
func tokenize(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	if _, err := gpt2(); err != nil {
		t.Fatal(err)
	}
	cmd := newTokenizeCmd()
	var out bytes.Buffer
	cmd.SetArgs(append([]string{"--tokenizer", "gpt2"}, args...))
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTokenize_Lines(t *testing.T) {
	for name, c := range map[string]struct {
		in, want string
		args     []string
	}{
		"text":      {in: `{"id":7,"text":"Hello, world"}`, want: `{"id":7,"ids":[15496,11,995]}`},
		"any id":    {in: `{"id":{"a": [1, null]},"text":"Hello"}`, want: `{"id":{"a": [1, null]},"ids":[15496]}`},
		"no id":     {in: `{"text":""}`, want: `{"id":null,"ids":[]}`},
		"base64":    {in: `{"id":"x","base64":"SGVsbG8="}`, want: `{"id":"x","ids":[15496]}`},
		"raw bytes": {in: `{"id":0,"base64":"YfCfmA=="}`, want: `{"id":0,"ids":[64,4210]}`},
		"special":   {in: `{"id":0,"text":"<|endoftext|>"}`, want: `{"id":0,"ids":[50256]}`},
		"special as text": {in: `{"id":0,"text":"<|endoftext|>"}`, want: `{"id":0,"ids":[27,91,437,1659,5239,91,29]}`,
			args: []string{"--special-as-text"}},
		"empty lines": {in: "\n{\"id\":1,\"text\":\"a\"}\r\n \n", want: `{"id":1,"ids":[64]}`},
		"no input":    {in: "", want: ""},
		"decode": {in: `{"id":[7],"ids":[15496,11,995]}`, want: `{"id":[7],"text":"Hello, world"}`,
			args: []string{"--decode"}},
		"decode markup": {in: `{"id":1,"ids":[27,29]}`, want: `{"id":1,"text":"<>"}`, args: []string{"--decode"}},
		"decode bytes":  {in: `{"id":1,"ids":[64,222]}`, want: `{"id":1,"base64":"YYA="}`, args: []string{"--decode", "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tokenize(t, c.in, c.args...)
			if err != nil || strings.TrimSuffix(got, "\n") != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestTokenize_ErrorGivesLineNumber(t *testing.T) {
	const good = `{"id":1,"text":"a"}` + "\n"
	for name, c := range map[string]struct {
		bad, says string
		args      []string
	}{
		"not JSON":       {bad: "{", says: "unexpected end"},
		"not an object":  {bad: "[1]", says: "the line is an array, want an object"},
		"text a number":  {bad: `{"text":5}`, says: `line 301: "text" is a number, want a string`},
		"text an object": {bad: `{"text":{}}`, says: `"text" is an object, want a string`},
		"text a truth":   {bad: `{"text":true}`, says: `"text" is true or false, want a string`},
		"no text":        {bad: `{"id":1}`, says: `either "text" or "base64"`},
		"both":           {bad: `{"text":"","base64":""}`, says: `either "text" or "base64"`},
		"bad base64":     {bad: `{"base64":"!"}`, says: "decode base64"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := tokenize(t, strings.Repeat(good, 299)+"\n"+c.bad+"\n"+good)
			if err == nil || !strings.Contains(err.Error(), "line 301") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want line 301 and %q", err, c.says)
			}
			if n := strings.Count(out, "\n"); n != 299 {
				t.Errorf("%d lines are written before it, want 299", n)
			}
		})
	}
	for bad, says := range map[string]string{
		`{"ids":"x"}`:   `line 2: "ids" is a string, want a list of token ids`,
		`{"ids":[1.5]}`: `line 2: "ids" holds 1.5, want a list of token ids`,
		`{"ids":["a"]}`: `line 2: "ids" holds a string, want a list of token ids`,
		`7`:             `line 2: the line is a number, want an object`,
	} {
		if _, err := tokenize(t, "\n"+bad, "--decode"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("decode %s: %v, want %q", bad, err, says)
		}
	}
	for _, bad := range []string{`{"ids":[50257]}`, `{"ids":[-1]}`, `{"ids":[1e99]}`, `{"ids":"x"}`, `{}`} {
		if _, err := tokenize(t, "\n"+bad, "--decode"); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("decode %s: %v", bad, err)
		}
	}
}

func TestTokenize_KeepsOrderAndDecodes(t *testing.T) {
	var in strings.Builder
	texts := make([]string, 3000)
	for i := range texts {
		texts[i] = strings.Repeat(fmt.Sprintf("line %d of ſome <b> text\u2028\n", i), 1+i*7919%50)
		line, err := json.Marshal(map[string]any{"id": i, "text": texts[i]})
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	path := filepath.Join(t.TempDir(), "documents.jsonl")
	if err := os.WriteFile(path, []byte(in.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ids, err := tokenize(t, "", path)
	if err != nil {
		t.Fatal(err)
	}
	back, err := tokenize(t, ids, "--decode")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(back), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("%d lines, want %d", len(lines), len(texts))
	}
	for i, line := range lines {
		var doc struct {
			ID   int
			Text string
		}
		if err := json.Unmarshal([]byte(line), &doc); err != nil || doc.ID != i || doc.Text != texts[i] {
			t.Fatalf("line %d is %s, %v", i+1, line, err)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestTokenize_StopsWhenOutputFails(t *testing.T) {
	cmd := newTokenizeCmd()
	cmd.SetArgs([]string{"--tokenizer", "gpt2"})
	cmd.SetIn(strings.NewReader(strings.Repeat(`{"text":"a"}`+"\n", 100_000)))
	cmd.SetOut(brokenPipe{})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("error %v", err)
	}
}

func TestTokenize_ReportsMissingInputFile(t *testing.T) {
	if _, err := tokenize(t, "", filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// tokenize writes its output while a producer pauses, and exits on an invalid line while the input stays open.
func TestTokenize_WritesOutputWhileInputIsIdle(t *testing.T) {
	in, input := io.Pipe()
	output, out := io.Pipe()
	defer input.Close()
	cmd := newTokenizeCmd()
	cmd.SetArgs([]string{"--tokenizer", "gpt2"})
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(t.Context()) }()

	if _, err := io.WriteString(input, `{"id":1,"text":"a"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(output).ReadString('\n')
		lines <- line
	}()
	select {
	case line := <-lines:
		if want := `{"id":1,"ids":[64]}` + "\n"; line != want {
			t.Fatalf("%q, want %q", line, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command keeps its output back while the input pauses")
	}
	if _, err := io.WriteString(input, "{\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("error %v, want line 2", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command waits for more input behind a bad line")
	}
}

// A command that waits for input stops when interrupted.
func TestTokenize_StopsOnInterrupt(t *testing.T) {
	in, input := io.Pipe()
	defer input.Close()
	ctx, stop := context.WithCancel(t.Context())
	cmd := newTokenizeCmd()
	cmd.SetArgs([]string{"--tokenizer", "gpt2"})
	cmd.SetIn(in)
	cmd.SetOut(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	if _, err := io.WriteString(input, `{"id":1,"text":"a"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command does not stop")
	}
}
