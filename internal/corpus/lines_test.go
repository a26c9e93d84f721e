package corpus_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// A file of several blocks, with lines longer than a block, has its documents and invalid lines in order.
func TestJSONLines_OrderOfBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var file bytes.Buffer
	var wanted []string
	for line := 1; file.Len() < 12<<20; line++ {
		text := fmt.Sprint(line, strings.Repeat(" x", random.IntN(2000)))
		switch {
		case random.IntN(200) == 0: // a long line
			text += strings.Repeat("long ", 300_000)
		case random.IntN(20) == 0:
			file.WriteString("no JSON\n")
			wanted = append(wanted, fmt.Sprintf("invalid line %d", line))
			continue
		case random.IntN(20) == 0:
			file.WriteString(" \n")
			continue
		}
		fmt.Fprintf(&file, "{\"text\":%q}\n", text)
		wanted = append(wanted, text)
	}
	path := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for d, err := range inputs[0].Documents(t.Context()) {
		skipped := (*record.SkipError)(nil)
		switch {
		case errors.As(err, &skipped):
			got = append(got, fmt.Sprintf("invalid line %d", skipped.Line))
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, string(d.Data))
		}
	}
	want(t, "documents", got, wanted)
}

// A line of a slow pipe is yielded when it arrives, and the reading of a pipe can end while it waits for a line.
func TestJSONLines_LineOfPipeIsYieldedAtOnce(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	inputs, err := corpus.Open(t.Context(), []string{"-"}, in, corpus.Options{Format: corpus.JSONL})
	if err != nil {
		t.Fatal(err)
	}
	write := func(i int) { _, _ = fmt.Fprintf(out, "{\"text\":\"%d\"}\n{\"te", i) } // fails only at the end of the test
	go write(0)
	next := 0
	for d, err := range inputs[0].Documents(t.Context()) {
		if err != nil || string(d.Data) != fmt.Sprint(next) {
			t.Fatalf("document %q, %v, want %d", d.Data, err, next)
		}
		if next++; next == 3 {
			break
		}
		go func() {
			_, _ = io.WriteString(out, "xt\":\"") // the rest of the line that has begun
			_, _ = fmt.Fprintf(out, "%d\"}\n{\"te", next)
		}()
	}
	if next != 3 {
		t.Fatalf("%d documents", next)
	}
}
