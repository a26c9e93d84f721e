package publishing_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/internal/natstest"
	"loaderd/internal/publishing"
)

// publish publishes the given files of a folder, in the order of their names.
func publish(t *testing.T, s *natstest.Server, files map[string]string,
	o publishing.Options) (publishing.Summary, publishing.Progress, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inputs, err := corpus.Open(t.Context(), []string{dir}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := publishing.Open(t.Context(), s.Store(), inputs, o)
	if err != nil {
		return publishing.Summary{}, publishing.Progress{}, err
	}
	defer p.Close()
	sum, err := p.Run(t.Context())
	return sum, p.Progress(), err
}

// An interrupt while the connection is lost must end a publishing that has not begun.
func TestOpen_EndsWithContextWhileConnectionIsLost(t *testing.T) {
	s := natstest.StartEmbedded(t)
	store := s.OpenRemote()
	s.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := publishing.Open(ctx, store, nil, publishing.Options{Source: "s"})
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond) // it waits for the connection
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("want that it is canceled: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}

func TestNotAcceptedError_NamesTokenizerOfEachRun(t *testing.T) {
	runs := []publishing.RunTokenizer{{Run: "a", Tokenizer: "qwen", Fingerprint: "f1"},
		{Run: "b", Tokenizer: "none", Fingerprint: "f2"}}
	for fingerprint, want := range map[string]string{
		"": "the documents are texts, and run a takes token ids alone (tokenizer.name: qwen, fingerprint f1), and run b " +
			"takes token ids alone" +
			" (tokenizer.name: none, fingerprint f2): every document would become a dead letter",
		"f3": "the documents are token ids of the tokenizer f3, and run a has tokenizer qwen (f1), and run b has " +
			"tokenizer none (f2):" +
			" every document would become a dead letter",
	} {
		e := publishing.NotAcceptedError{Runs: runs, Fingerprint: fingerprint}
		if got := e.Error(); got != want {
			t.Errorf("%q: %s", fingerprint, got)
		}
	}
}

func TestLimit_RequiresUnrecorded(t *testing.T) {
	s := natstest.Start(t)
	if _, err := s.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"a.txt": "one", "b.txt": "", "c.txt": "three", "d.jsonl": `{"text":"four"}` + "\n" +
		`{"text":"five"}`}
	sum, now, err := publish(t, s, files, publishing.Options{Source: "s", Unrecorded: true, Limit: 3})
	if err != nil || sum.Documents != 3 || now.Offered != 3 || now.OfferedBytes != int64(len("onethreefour")) ||
		now.LeftOut != 1 || sum.Skipped["empty"] != 1 {
		t.Errorf("%+v, %+v, %v", sum, now, err)
	}
	sum, _, err = publish(t, s, files, publishing.Options{Source: "t", Unrecorded: true})
	if err != nil || sum.Documents != 4 || sum.InputsComplete != sum.Inputs || sum.IsEmpty() {
		t.Errorf("without a limit: %+v, %v", sum, err)
	}
	if _, _, err := publish(t, s, files, publishing.Options{Source: "s", Limit: 3}); err == nil {
		t.Error("a limit is taken with records, which would call an input complete")
	}
}

// A document that may not be left out ends the reading of its input, and causes the error at the end. The documents
// before it are committed.
func TestPublish_RefusedDocumentEndsItsInput(t *testing.T) {
	s := natstest.Start(t)
	if _, err := s.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"a.txt": "one", "d.jsonl": `{"text":"two"}` + "\nnonsense\n" + `{"text":"four"}`}
	sum, _, err := publish(t, s, files, publishing.Options{Source: "s"})
	var refused *publishing.RefusedError
	if !errors.As(err, &refused) || refused.Reason != record.Invalid ||
		!strings.Contains(err.Error(), "d.jsonl:2") || sum.Documents != 2 ||
		sum.InputsComplete != 1 || sum.InputsFailed != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	sum, now, err := publish(t, s, files, publishing.Options{Source: "s", SkipInvalid: true})
	if err != nil || now.LeftOut != 1 || sum.Skipped["bad record"] != 1 || sum.InputsComplete != 2 {
		t.Errorf("left out: %+v, %v", sum, err)
	}
}
