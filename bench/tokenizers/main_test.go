package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer"
)

// The compared ids are those of each document, in order, for any number of goroutines.
func TestRun_IDsEqualThoseOfDocuments(t *testing.T) {
	m, err := tokenizer.Load("gpt2", tokenizer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for i := range 50 {
		documents = append(documents, strings.Repeat("a few words, ", i)+"中文")
	}
	folder := t.TempDir()
	text, ids := filepath.Join(folder, "documents"), filepath.Join(folder, "ids")
	if err := os.WriteFile(text, []byte(strings.Join(documents, "\x00")+"\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"-workers", "3", "-rounds", "2", "-ids", ids, text}, &out); err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(ids)
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	e, tokens, size := m.NewEncoder(), 0, 0
	for _, d := range documents {
		list := e.Encode(nil, []byte(d))
		want = binary.LittleEndian.AppendUint32(want, uint32(len(list)))
		for _, id := range list {
			want = binary.LittleEndian.AppendUint32(want, uint32(id))
		}
		tokens += len(list)
		size += len(d)
	}
	if !slices.Equal(got, want) || r.Tokens != tokens || r.Bytes != size || len(r.Wall) != 2 || len(r.CPU) != 2 {
		t.Errorf("%d bytes of ids, want %d; %+v, want %d tokens of %d bytes in 2 rounds", len(got), len(want), r,
			tokens, size)
	}
}

func TestRun_RefusesUnterminatedDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "documents")
	if err := os.WriteFile(path, []byte("one\x00two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{path}, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("a document that does not end: %v", err)
	}
}

// Loading a tokenizer reports times of each kind, and an unknown tokenizer is an error.
func TestMeasureLoading_ReportsEveryTime(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-load", "-tokenizer", "gpt2"}, &out); err != nil {
		t.Fatal(err)
	}
	var r loaded
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Load.Wall <= 0 || r.Encoder.Wall <= 0 || r.LongWord.Wall <= 0 || r.Fingerprint.Wall <= 0 {
		t.Errorf("%+v", r)
	}
	if err := run([]string{"-load", "-tokenizer", "gpt-2"}, &out); err == nil {
		t.Error("no error for a tokenizer that is not there")
	}
}
