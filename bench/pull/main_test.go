package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/flightclient"
	"loaderd/tokenizer"
)

// The server returns the lines of the corpus from any byte offset.
func TestCorpus_ServesLinesFromAnyOffset(t *testing.T) {
	m := corpusOf(10*lineBytes, 7)
	m.perObject = 4
	var whole []byte
	for i := range m.documents {
		line := m.line(i)
		var d struct{ Text string }
		if err := json.Unmarshal(line, &d); err != nil || len(line) != lineBytes || d.Text != string(text(line)) {
			t.Fatalf("line %d: %d bytes, %v", i, len(line), err)
		}
		whole = append(whole, line...)
	}
	var got []byte
	for i, url := range m.addresses("http://corpus") {
		for _, part := range []string{"bytes=0-4999", "bytes=5000-"} {
			r := httptest.NewRequest("GET", url, nil)
			r.Header.Set("Range", part)
			w := httptest.NewRecorder()
			m.ServeHTTP(w, r)
			b, err := io.ReadAll(w.Body)
			if err != nil || w.Code != 206 || w.Header().Get("ETag") == "" {
				t.Fatalf("object %d, %s: %d, %v", i, part, w.Code, err)
			}
			got = append(got, b...)
		}
	}
	if !bytes.Equal(got, whole) {
		t.Errorf("%d bytes are served, want %d, or others", len(got), len(whole))
	}
}

// Missing, duplicate and misplaced documents are counted, also in parts.
func TestCount_MissingDuplicateAndMisplaced(t *testing.T) {
	model, err := tokenizer.Load("gpt2", tokenizer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := corpusOf(3*lineBytes, 7)
	end, _ := model.EndOfText()
	type piece struct{ sequence, from, to, document int } // in halves
	var all []piece
	for i := range 3 {
		all = append(all, piece{i + 1, 0, 1, i}, piece{i + 1, 1, 2, i})
	}
	for name, c := range map[string]struct {
		pieces []piece
		want   string
	}{
		"all":              {all, "0 0 0"},
		"none of the last": {all[:4], "1 0 0"},
		"no end":           {all[:5], "1 0 0"},
		"no beginning":     {all[1:], "1 0 0"},
		"an end twice":     {append(all[:6:6], all[5]), "0 1 0"},
		"a beginning":      {append(all[:6:6], all[0]), "0 1 0"},
		"another's":        {append([]piece{{1, 0, 1, 2}}, all[1:]...), "0 1 1"}, // which has a longer half
		"nobody's":         {append(all[:6:6], piece{4, 0, 1, 2}), "0 0 1"},
	} {
		counted, err := newCount(3, model)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.pieces {
			ids := append(model.NewEncoder().Encode(nil, text(m.line(int64(p.document)))), end.ID)
			half := len(ids) / 2
			from, to := p.from*half, half
			if p.to == 2 {
				to = len(ids)
			}
			b := flightclient.Batch{Rows: 1, L: to - from, InputIDs: ids[from:to],
				Documents: [][]api.Piece{{{Sequence: uint64(p.sequence), Start: int32(from), Length: int32(to - from)}}}}
			if err := counted.take(b); err != nil {
				t.Fatal(err)
			}
		}
		missing, twice := counted.result()
		if got := fmt.Sprint(missing, twice, counted.misplaced+counted.foreign); got != c.want {
			t.Errorf("%s: missing, twice, elsewhere are %s, want %s", name, got, c.want)
		}
	}
}
