package publishing_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/internal/corpus"
	"loaderd/internal/natstest"
	"loaderd/internal/publishing"
	streampublish "loaderd/stream/publish"
)

// kinds writes files of three kinds, of very different sizes and numbers, and returns their folder and their documents.
func kinds(t *testing.T) (dir string, documents []string) {
	t.Helper()
	dir = t.TempDir()
	for kind, files := range map[string][]int{"a": {1200}, "b": {40, 90, 3, 160}, "c": slices.Repeat([]int{12}, 50)} {
		for f, n := range files {
			var lines strings.Builder
			for i := range n {
				text := fmt.Sprintf("%s %d %d %s", kind, f, i, strings.Repeat("word ", i*19%50))
				documents = append(documents, text)
				fmt.Fprintf(&lines, "{\"text\": %q}\n", text)
			}
			name := filepath.Join(dir, fmt.Sprintf("%s-%02d.jsonl", kind, f))
			if err := os.WriteFile(name, []byte(lines.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, documents
}

// newStream returns a server with an empty document stream.
func newStream(t *testing.T) *natstest.Server {
	t.Helper()
	s := natstest.Start(t)
	if _, err := s.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// interleaved opens a session that interleaves the files of a folder.
func interleaved(t *testing.T, s *natstest.Server, dir string) *publishing.Session {
	t.Helper()
	inputs, err := corpus.Open(t.Context(), []string{dir}, nil, corpus.Options{Interleaved: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := publishing.Open(t.Context(), s.Store(), inputs,
		publishing.Options{Source: "s", Interleave: true, BatchBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// storedTexts returns the texts of a stream in its order.
func storedTexts(t *testing.T, s *natstest.Server) (texts []string) {
	t.Helper()
	for _, m := range natstest.Stored(t, s.Store()) {
		texts = append(texts, string(m.Data()))
	}
	return texts
}

// Interleaved documents are those of the files, each once, each file in its order, mixed by kind, and in the same
// order each time.
func TestInterleave_MixesFilesInFixedOrder(t *testing.T) {
	dir, documents := kinds(t)
	s := newStream(t)
	sum, err := interleaved(t, s, dir).Run(t.Context())
	if err != nil || sum.Documents != int64(len(documents)) || sum.InputsComplete != 55 {
		t.Fatalf("%+v, %v", sum, err)
	}
	texts := storedTexts(t, s)
	sorted := slices.Sorted(slices.Values(texts))
	if slices.Sort(documents); !slices.Equal(sorted, documents) {
		t.Fatalf("%d documents, want each of %d once", len(texts), len(documents))
	}
	next, run, longest := map[string]int{}, 0, 0
	for i, text := range texts {
		var kind string
		var file, n int
		if _, err := fmt.Sscan(text, &kind, &file, &n); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint(kind, file)
		if n != next[name] {
			t.Fatalf("document %d of file %s follows %d", n, name, next[name])
		}
		next[name]++
		if run++; i > 0 && texts[i-1][0] != text[0] {
			run = 1
		}
		longest = max(longest, run)
	}
	if longest > 15 { // one after another, 1,200
		t.Errorf("%d consecutive documents of a kind", longest)
	}
	again := newStream(t)
	if _, err := interleaved(t, again, dir).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(storedTexts(t, again), texts) {
		t.Error("another publishing has another order")
	}
	if sum, err := interleaved(t, s, dir).Run(t.Context()); err != nil || sum.Documents != 0 ||
		sum.AlreadyStored != int64(len(documents)) {
		t.Errorf("again: %+v, %v", sum, err)
	}
}

// A publishing that is killed several times results in the same stream as one that is not.
func TestInterleave_ContinuesInSameOrderAfterKill(t *testing.T) {
	dir, documents := kinds(t)
	whole := newStream(t)
	if _, err := interleaved(t, whole, dir).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, kills := newStream(t), 0
	for limit := int64(100); ; limit += 250 {
		p := interleaved(t, s, dir)
		ended := make(chan error)
		go func() {
			_, err := p.Run(context.WithoutCancel(t.Context()))
			ended <- err
		}()
		var err error
		for running := true; running && err == nil; {
			select {
			case err = <-ended:
				running = false
			case <-time.After(100 * time.Microsecond):
				if now := p.Progress(); now.Documents+now.Duplicates >= limit {
					p.Close() // neither the batch in flight nor the records are awaited
					err = <-ended
					running = false
				}
			}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, streampublish.ErrClosed) {
			t.Fatal(err)
		}
		kills++
	}
	if texts := storedTexts(t, s); !slices.Equal(texts, storedTexts(t, whole)) {
		t.Errorf("%d documents after %d kills, want the %d of the uninterrupted publishing in the same order", len(texts),
			kills, len(documents))
	}
	if kills < 2 {
		t.Errorf("%d kills", kills)
	}
}

// An invalid line ends its file, and the error names both. The other files are published.
func TestInterleave_ErrorNamesFileAndLine(t *testing.T) {
	dir, documents := kinds(t)
	name := filepath.Join(dir, "a-00.jsonl")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines[700] = "no JSON\n"
	if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := interleaved(t, newStream(t), dir).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "a-00.jsonl:701:") || sum.InputsFailed != 1 ||
		sum.InputsComplete != 54 || sum.Documents != int64(len(documents)-1200+700) {
		t.Errorf("%+v, %v", sum, err)
	}
}

// Standard input follows the files.
func TestInterleave_StandardInputIsLast(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.jsonl")
	if err := os.WriteFile(name, []byte("{\"text\": \"file\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin := strings.NewReader("{\"text\": \"1\"}\n{\"text\": \"2\"}\n")
	inputs, err := corpus.Open(t.Context(), []string{"-", name}, stdin, corpus.Options{Interleaved: true})
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(t)
	p, err := publishing.Open(t.Context(), s.Store(), inputs, publishing.Options{Source: "s", Interleave: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if texts := storedTexts(t, s); !slices.Equal(texts, []string{"file", "1", "2"}) {
		t.Errorf("documents %q", texts)
	}
}
