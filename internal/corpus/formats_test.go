package corpus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"loaderd/internal/corpus"
)

const (
	twoLines = `{"text":"one"}` + "\n" + `{"text":"two"}` + "\n"
	oneArray = `[{"text":"one"},{"text":"two"}]`
	pretty   = "[\n  {\n    \"text\": \"one\"\n  },\n  {\n    \"text\": \"two\"\n  }\n]\n"
	follow   = "{\n  \"text\": \"one\"\n}\n{\n  \"text\": \"two\"\n}\n"
	table    = "id,text\n1,one\n2,two\n"
)

// bzipped is twoLines compressed by bzip2, because the standard library can only decompress it.
const bzipped = "BZh91AY&SYj\xce\x17g\x00\x00\x0dY\x80\x00\x10\x10\x00\x00\x10\x02\x01\x84\xca " +
	"\x001\x00\xd3M\x02T\xd1\xeam'\xa9\x06(V6e\x8b\xca\x15\xa5d8|]\xc9\x14\xe1BA\xab8]\x9c"

func xzipped(tb testing.TB, s string) string {
	tb.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write([]byte(s)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// The content of a file determines its format.
func TestDetect_ContentDeterminesFormat(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"a.json", twoLines, "one two"}, {"a.json.gz", gzipped(t, twoLines), "one two"}, {"a.jsonl", oneArray, "one two"},
		{"a.json", oneArray, "one two"},
		{"a.json", pretty, "one two"}, {"a.json", follow, "one two"}, {"a.json", `{"text":"one"}`, "one"},
		{"a.json", "\xef\xbb\xbf" + pretty, "one two"},
		{"a.json", "[]", ""}, {"a.json", "", ""}, {"a.json", ` { "text" : "a ] } \" , [ {" } `, `a ] } " , [ {`},
		{"a.csv", table, "one two"}, {"a.csv", "text;id\r\none;1\r\ntwo;2\r\n", "one two"},
		{"a.tsv", "id\ttext\n1\tone\n2\ttwo\n", "one two"},
		{"a.csv", "text\none\n\"t\"\"wo\"\n", `one t"wo`}, {"a.csv", "\xef\xbb\xbftext,id\n\"a,\nb\",1\n", "a,\nb"},
		{"a.csv.gz", gzipped(t, table), "one two"},
		{"a.tsv", "text\tn\nhe said \"yes\"\t1\n\"open\t2\n", `he said "yes" "open`},
		{"a.tsv", "text\tn\n\"o\nne\"\t1\n", "o\nne"},
		{"a", twoLines, "one two"}, {"part-0", pretty, "one two"}, {"a.data", twoLines, "one two"},
		{"a.txt", twoLines, "one two"}, {"a.dat", table, "one two"},
		{"a.jsonl.gz", zstandard(t, twoLines), "one two"}, {"a.jsonl", gzipped(t, twoLines), "one two"},
		{"a.dat", zstandard(t, oneArray),
			"[{\"text\":\"one\"},{\"text\":\"two\"}]"},
		{"a.jsonl.bz2", bzipped, "one two"}, {"a.jsonl.xz", xzipped(t, twoLines), "one two"},
		{"a", xzipped(t, twoLines), "one two"},
		// Plain text is unchanged.
		{"a.txt", "{ not JSON", "{ not JSON"}, {"a.md", "[link](x)", "[link](x)"}, {"a.go", "{\n}\n", "{\n}\n"},
		{"a.txt", oneArray, oneArray}, {"a.py",
			"[1]\n[2]\n", "[1]\n[2]\n"},
		{"a.txt", `{"text":"one"}`, `{"text":"one"}`}, {"a.txt", "BZh9 is no magic", "BZh9 is no magic"},
		{"LICENSE", "{{ name }}", "{{ name }}"},
		{"a.txt", "to be, or not,\ntext,\n", "to be, or not,\ntext,\n"},
	} {
		path := filepath.Join(folder(t, map[string]string{c.name: c.content}), c.name)
		docs, skipped, err := read(t, []string{path}, nil, corpus.Options{})
		for i, d := range docs {
			docs[i] = d[strings.LastIndex(d, "|")+1:]
		}
		if err != nil || len(skipped) > 0 || strings.Join(docs, " ") != c.want {
			t.Errorf("%s %.60q: %q, %q, %v, want %q", c.name, c.content, docs, skipped, err, c.want)
		}
		if c.want == "" || strings.Contains(c.name, ".") {
			continue
		}
		if again, _, err := read(t, []string{"-"}, strings.NewReader(c.content), corpus.Options{}); err != nil ||
			len(again) != len(docs) {
			t.Errorf("standard input %.60q: %q, %v", c.content, again, err)
		}
	}
}

// Content that does not match the extension of the name is refused, and the error describes it.
func TestDetect_RefusesContentUnlikeExtension(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"a.jsonl", "hello\nworld\n", `its name promises JSON lines, but it begins with "hello"`},
		{"a.json", table, `its name promises JSON, but it begins with "id,text"`},
		{"a.parquet", twoLines, "its name promises Parquet, but it looks like JSON lines"},
		{"a.arrow", "PAR1....PAR1", "its name promises Arrow IPC data, but it looks like Parquet"},
		{"a.csv", twoLines, "its name promises CSV, but it looks like JSON lines"},
		{"a.csv", "a,b\n1,2\n", `no "text"; it has "a", "b" (--text-column names another)`},
		{"a.json", "{\n \"name\": \"x\",\n \"version\": 2\n}\n",
			`no "text"; it has "name", "version" (--text-column names another)`},
		{"a.json", `[{"body":"x"},{"body":"y"}]`, `no "text"; it has "body"`},
		{"a.json", "[\n{\"text\":\"a\"},\n{\"text\":\"b\"}\n", "a.json:4: the list that begins in line 1 is not closed"},
		{"a.json", "[\n{\"text\":\"a\"}\n{\"text\":\"b\"}]", `a.json:3: unexpected '{' after an element`},
		{"a.json", "[{\"text\":\"a\"}\n]\n[1]", `a.json:3: unexpected '[' after the list`},
		{"a.json", "[{\"text\":\"a\"},]", `a.json:1: unexpected ']' behind a comma`},
		{"a.json", "{\n\"text\": \"a\"\n}\n{\n\"text\": [\"b\"\n}\n",
			"a.json:4: a bracket of the value that begins in line 4 is not closed"},
		{"a.csv", "text,id\na,1\n\"b,2\nc,3\n", `a.csv:3: a field that begins with a quote (") is not closed`},
		{"a.bin", "\x7fELF\x00\x00", "binary file"}, {"a.pdf", "%PDF-1.7\n\x00", "application/pdf"},
		{"a.parquet.gz", gzipped(t, "PAR1....PAR1"),
			"must not be compressed as a whole"},
		{"a.txt.xz", "plain", "no compressed data"}, {"a.bz2", bzipped[:60], "bzip2 data is truncated"},
		{"a.xz", xzipped(t, twoLines)[:40], "xz data is truncated"},
		{"a.xz", "\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46" + "\x02\x00\x21\x01\x28\x00\x00\x00",
			"a dictionary of more than 128 MiB"},
		{"a.xz", "\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46" + "\x03\xc0\x80\x01\x05\x21\x01\x28\x00\x00\x00",
			"a dictionary of more than 128 MiB"},
	} {
		path := filepath.Join(folder(t, map[string]string{c.name: c.content}), c.name)
		_, _, err := read(t, []string{path}, nil, corpus.Options{})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40q: %v, want an error with the path and %s", c.name, c.content, err, c.want)
		}
	}
}

// Records that are not documents are skipped with their position, and the others are read.
func TestRecords_SkippedWithPosition(t *testing.T) {
	for _, c := range []struct{ name, content, docs, skipped string }{
		{"a.json", "[\n{\"text\":\"one\"},\n3, \"x\", null,\n{\"body\":1},\n{\"text\":\n\"a\\x\"},\n{\"text\":\"two\"}]",
			"one two", "3 3 3 4 6"},
		{"a.tsv", "text\tid\n\"one\"s\t1\n\nx\ny\tz\t1\ntwo\t5\n", `"one"s two`, "4 5"},
		{"a.csv", "text,id\none,1\na,2,3\n\"x\ny\"z,4\ntwo,5\n", "one x\nyz two", "3"},
		{"a.jsonl", "{\"text\":\"one\"}\n[1]\n{\"text\":[\"b\"\n{\"text\":\"two\"}\n", "one two", "2 3"},
		{"a.json", `[{"text":"` + strings.Repeat("x", 700_000) + `"},{"text":"two"}]`, "two", "1"},
	} {
		path := filepath.Join(folder(t, map[string]string{c.name: c.content}), c.name)
		docs, skipped, err := read(t, []string{path}, nil, corpus.Options{MaxDocument: 100_000})
		for i, d := range docs {
			docs[i] = d[strings.LastIndex(d, "|")+1:]
		}
		for i, s := range skipped {
			line, _, _ := strings.Cut(s[len("a.x"):], " ")
			skipped[i] = line[strings.Index(line, ":")+1:]
		}
		if err != nil || strings.Join(docs, " ") != c.docs || strings.Join(skipped, " ") != c.skipped {
			t.Errorf("%s: %q, left out %q, %v, want %s and %s", c.name, docs, skipped, err, c.docs, c.skipped)
		}
	}
}

// A document's label and path are those of the record, or of its file.
func TestDocument_LabelAndPath(t *testing.T) {
	dir := folder(t, map[string]string{
		"sub/7.txt": "plain",
		"a.jsonl": `{"text":"1","id":"i","path":"p","url":"u"}` + "\n" + `{"text":"2","id":5,"meta":{"path":"m"},"url":"u"}` +
			"\n" + `{"text":"3","url":"u"}` +
			"\n" + `{"text":"4","id":{},"path":7,"meta":[]}` + "\n" + `{"text":"5","id":"a\nb"}`,
		"b.csv": "text,id,url\n6,i,u\n",
	})
	t.Chdir(dir)
	for path, want := range map[string]string{
		"sub": "7.txt sub/7.txt plain", "./sub/7.txt": "7.txt sub/7.txt plain", "b.csv": "u i 6",
		"a.jsonl": "p i 1, m 5 2, u  3, 7  4, a.jsonl  5",
	} {
		inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for d, err := range inputs[0].Documents(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, d.Path+" "+d.Label+" "+string(d.Data))
		}
		if strings.Join(have, ", ") != want {
			t.Errorf("%s: %q, want %s", path, have, want)
		}
	}
}

// The error for a remote path explains how to get it.
func TestOpen_RemotePathErrorSuggestsCommand(t *testing.T) {
	for path, want := range map[string]string{
		"ftp://x/y": "pipe it, PROGRAM | loaderd publish -", "file:///a/b": "pass only the path: /a/b",
		"hdfs://datasets/x": "pipe it", "file:///data/x": "pass only the path: /data/x",
	} {
		if _, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// In a folder, a file without text is skipped, and any other mismatch between name and content is an error.
func TestFolder_SkipsFilesWithoutText(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.json": twoLines, "package.json": `{"name":"x"}`, "b.csv": "x,y\n1,2\n", "c.csv": table,
		"image.png": "\x89PNG\x00", "t.txt": "plain", "bad.json": "no JSON",
	})
	docs, skipped, err := read(t, []string{dir}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", docs, []string{"t.txt||plain", "a.json||one", "a.json||two", "c.csv||one", "c.csv||two"})
	want(t, "left out", skipped, []string{"b.csv:0 no text", "bad.json:0 no text", "image.png:0 binary",
		"package.json:0 no text"})
	if err := os.WriteFile(filepath.Join(dir, "z.jsonl"), []byte("no lines"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(t, []string{dir}, nil, corpus.Options{}); err == nil ||
		!strings.Contains(err.Error(), "z.jsonl") {
		t.Errorf("a broken promise in a folder: %v", err)
	}
}
