package corpus_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/ipc"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/csvtable"
)

// frugal runs f and checks that it allocates little memory.
func frugal(tb testing.TB, f func()) {
	tb.Helper()
	before := allocated()
	f()
	if took := allocated() - before; took > 1<<30 {
		tb.Errorf("takes %d MiB", took>>20)
	}
}

// allocated returns how many bytes were allocated so far. It does not stop other goroutines, unlike
// runtime.ReadMemStats.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// readFile writes data to a file in a folder and reads it: no panic, little memory, and an error that names the file.
// A fuzz target has one folder for all executions, because creating and removing one takes longer than reading the
// file.
func readFile(t *testing.T, dir, name string, data []byte, o corpus.Options) (docs, skipped []string, err error) {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	frugal(t, func() { docs, skipped, err = read(t, []string{path}, nil, o) })
	if err != nil && !strings.Contains(err.Error(), path) {
		t.Fatalf("the error does not name the file: %v", err)
	}
	return docs, skipped, err
}

func FuzzCompressed(f *testing.F) {
	for _, s := range []string{gzipped(f, twoLines), zstandard(f, twoLines), bzipped, xzipped(f, twoLines),
		gzipped(f, "") + gzipped(f, twoLines), "BZh9",
		"\x1f\x8b\x08", gzipped(f, twoLines) + "\x00\x00\n" + gzipped(f, twoLines), "\x50\x2a\x4d\x18\x01\x00\x00\x00x" +
			zstandard(f, twoLines)} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = readFile(t, dir, "a.dat", data, corpus.Options{MaxDocument: 1 << 16}) // an error, or some documents
	})
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{table, "text\n\"a\nb\"\n", "text;id\n1;2\n", "\xef\xbb\xbftext\tid\nx\ty\n", "text\n\"",
		"text\na\"b\n", "text,text\n1,2\n",
		"id\ttext\n1\t\"a\n2\tb\"\n", "text,id\n\"a\\\"b\",1\n", "text,id\r\"a\r\nb\"c,1\r\r2,3"} {
		f.Add([]byte(s), "", "")
		f.Add([]byte(s), csvtable.QuotingOff, csvtable.EscapeBackslash)
		f.Add([]byte(s), csvtable.QuotingOn, csvtable.EscapeNone)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, quoting, escape string) {
		o := corpus.Options{
			Format: corpus.CSV, MaxDocument: 1 << 10, CSV: csvtable.Options{Quoting: quoting, Escape: escape},
		}
		docs, skipped, err := readFile(t, dir, "a.csv", data, o)
		if again, _, partsErr := read(t, []string{"-"}, &oneByte{bytes.NewReader(data)}, o); err == nil && partsErr == nil &&
			!slices.Equal(texts(docs), texts(again)) {
			t.Fatalf("%q of a file, %q in parts", docs, again)
		}
		if lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 1; len(docs)+len(skipped) > lines {
			t.Fatalf("%d documents and %d left out of %d lines", len(docs), len(skipped), lines)
		}
	})
}

// Valid JSON yields the same values as in the standard library, whatever the lines.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{oneArray, pretty, follow, "[]", "[1,", `{"text":"\""}`, `[{"text":"]"},[{"text":1}]]`,
		`"x" 1 null`, "[{}{}]", "\xef\xbb\xbf[]",
		`{"text":"a"}]`, `[{"a":NaN,"text":"-Infinity \\" NaN"},{"text":Infinity}]`,
		"{\n\"text\":1}\ufeff{\"a\":-Infinity}"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, skipped, err := readFile(t, dir, "a.json", data, corpus.Options{Format: corpus.JSON, MaxDocument: 1 << 20})
		var list []json.RawMessage
		if json.Unmarshal(data, &list) == nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
			if err != nil || len(docs)+len(skipped) != len(list) {
				t.Fatalf("%d documents and %d left out of %d elements, %v", len(docs), len(skipped), len(list), err)
			}
		}
		var one struct{ Text *string }
		if json.Valid(data) && json.Unmarshal(data, &one) == nil && err != nil {
			t.Fatalf("an object is refused: %v", err)
		}
	})
}

// FuzzDetectFormat detects the format of arbitrary data under any name.
func FuzzDetectFormat(f *testing.F) {
	for _, name := range []string{"a.json", "a.jsonl", "a.csv", "a.txt", "a", "a.parquet", "a.arrow", "a.gz"} {
		for _, s := range []string{twoLines, oneArray, table, "text", "\x00", ""} {
			f.Add(name, []byte(s))
		}
	}
	names := map[string]bool{"a.json": true, "a.jsonl": true, "a.csv": true, "a.tsv": true, "a.txt": true, "a": true,
		"a.parquet": true, "a.arrow": true,
		"a.gz": true}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if !names[name] {
			name = "a"
		}
		_, _, _ = readFile(t, dir, name, data, corpus.Options{MaxDocument: 1 << 12})
		_, _, _ = read(t, []string{"-"}, bytes.NewReader(data), corpus.Options{MaxDocument: 1 << 12})
	})
}

func FuzzParquet(f *testing.F) {
	whole, err := os.ReadFile(parquetFile(f, 5))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, false)
	f.Add(whole, true)
	f.Add(append(whole[:len(whole):len(whole)], whole...), false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, asTokens bool) {
		_, _, _ = readFile(t, dir, "a.parquet", data, corpus.Options{Format: corpus.Parquet, Tokens: asTokens,
			MaxDocument: 1 << 16})
	})
}

func FuzzArrow(f *testing.F) {
	f.Add(arrowStream(f, 5), false)
	f.Add(arrowStream(f, 5), true)
	f.Add(arrowStream(f, 5, ipc.WithZstd()), false)
	f.Add(arrowStream(f, 5, ipc.WithLZ4()), true)
	f.Add([]byte(inArrowFile(f, "one")), false)
	f.Add([]byte(inArrowStream(f, "one")+inArrowStream(f, "two")), false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, asTokens bool) {
		_, _, _ = readFile(t, dir, "a.arrow", data, corpus.Options{Format: corpus.Arrow, Tokens: asTokens,
			MaxDocument: 1 << 16})
	})
}
