package corpus_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"loaderd/internal/corpus"
)

// inUTF16 returns text in UTF-16, little-endian, with a byte order mark.
func inUTF16(text string) string {
	b := []byte("\xff\xfe")
	for _, unit := range utf16.Encode([]rune(text)) {
		b = little.AppendUint16(b, unit)
	}
	return string(b)
}

func TestEncoding_DecodesUnicodeVariants(t *testing.T) {
	words := strings.Repeat("word ", 40)
	for name, c := range map[string]struct {
		file, content string
		o             corpus.Options
		want          string
	}{
		"UTF-16 lines":             {"a.jsonl", inUTF16(twoLines), corpus.Options{}, "one two"},
		"UTF-16 lines, compressed": {"a.jsonl.gz", gzipped(t, inUTF16(twoLines)), corpus.Options{}, "one two"},
		"UTF-16 table":             {"a.csv", inUTF16("text,id\n\"a\né😀\",1\n"), corpus.Options{}, "a\né😀"},
		"UTF-16 text":              {"a.txt", inUTF16("é"), corpus.Options{}, "é"},
		"big-endian":               {"a.txt", "\xfe\xff\x00h\x00i", corpus.Options{}, "hi"},
		"Latin-1":                  {"a.csv", "text,id\ncaf\xe9,1\n", corpus.Options{Encoding: "latin1"}, "café"},
		"Shift JIS":                {"a.txt", "\x93\xfa\x96{", corpus.Options{Encoding: "shift_jis"}, "日本"},
		"a few bytes":              {"a.txt", words + "\xff", corpus.Options{}, words + "\ufffd"},
		"a character that is cut": {"a.txt", words + words + "\xf0\x9f\x98", corpus.Options{},
			words + words + "\ufffd"},
		"marks before each line": {"a.jsonl", "\ufeff\ufeff{\"text\":\"one\"}\n\ufeff{\"text\":\"two\"}\n",
			corpus.Options{}, "one two"},
		"marks before values": {"a.json", "\ufeff{\n\"text\":\"one\"}\n\ufeff{\n\"text\":\"two\"}\n", corpus.Options{},
			"one two"},
		"a mark before text": {"a.txt", "\ufefftext", corpus.Options{}, "text"},
		"numbers that are not finite": {"a.jsonl",
			`{"text":"NaN \" Infinity","a":NaN,"b":[-Infinity,{"c":Infinity}]}`, corpus.Options{}, `NaN " Infinity`},
		"a field within another": {"a.jsonl", `{"doc":{"text":"one"}}` + "\n" + `{"doc.text":"two"}`,
			corpus.Options{TextField: "doc.text"}, "one two"},
		"a field within two": {"a.json", `[{"a":{"b":{"c":"one"}}}]`, corpus.Options{TextField: "a.b.c"},
			"one"},
		"an id within another": {"a.jsonl", `{"text":"one","meta":{"key":"k"}}`,
			corpus.Options{IDField: "meta.key"}, "one"},
		"UTF-16 without its byte order": {"a.txt", inUTF16("é")[2:], corpus.Options{Encoding: "utf-16le"}, "é"},
	} {
		path := filepath.Join(folder(t, map[string]string{c.file: c.content}), c.file)
		docs, skipped, err := read(t, []string{path}, nil, c.o)
		if err != nil || len(skipped) > 0 || strings.Join(texts(docs), " ") != c.want {
			t.Errorf("%s: %q, left out %q, %v, want %q", name, texts(docs), skipped, err, c.want)
		}
	}
}

// Text in another encoding is refused, not replaced.
func TestEncoding_RefusesOtherEncodings(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		o             corpus.Options
		skipped       string
	}{
		"Latin-1":              {"a.txt", "caf\xe9 cr\xe8me", corpus.Options{}, "a.txt:0 bad record"},
		"Latin-1 of a table":   {"a.csv", "text,id\ncaf\xe9,1\n", corpus.Options{}, "a.csv:2 bad record"},
		"a zero byte in JSON":  {"a.jsonl", "{\"text\":\"a\x00b\"}\n", corpus.Options{}, "a.jsonl:1 bad record"},
		"NaN that is the text": {"a.jsonl", `{"text":NaN}`, corpus.Options{}, "a.jsonl:1 bad record"},
		"NaN that is the id": {"a.jsonl", `{"text":"a","id":NaN}`, corpus.Options{IDField: "id"},
			"a.jsonl:1 bad record"},
		"a weight of NaN":      {"a.jsonl", `{"text":"a","weight":NaN}`, corpus.Options{}, "a.jsonl:1 bad record"},
		"no JSON behind a NaN": {"a.jsonl", `{"a":NaN,"text":"a",}`, corpus.Options{}, "a.jsonl:1 bad record"},
	} {
		path := filepath.Join(folder(t, map[string]string{c.file: c.content}), c.file)
		docs, skipped, err := read(t, []string{path}, nil, c.o)
		if err != nil || len(docs) > 0 || strings.Join(skipped, " ") != c.skipped {
			t.Errorf("%s: %q, left out %q, %v", name, docs, skipped, err)
		}
	}
	dir := folder(t, map[string]string{"a.txt": "caf\xe9", "b.txt": "plain"})
	docs, skipped, err := read(t, []string{dir}, nil, corpus.Options{})
	if err != nil || len(docs) != 1 || strings.Join(skipped, " ") != "a.txt:0 encoding" {
		t.Errorf("a folder: %q, left out %q, %v", docs, skipped, err)
	}
	if _, _, err := read(t, []string{dir}, nil, corpus.Options{Encoding: "klingon"}); err == nil ||
		!strings.Contains(err.Error(), `unknown encoding "klingon"`) {
		t.Errorf("an encoding that is none: %v", err)
	}
}

// A line that is longer than a part is read completely, whatever its length.
func TestJSONLines_LongLine(t *testing.T) {
	for _, n := range []int{1<<20 - 20, 1<<20 - 12, 1 << 20, 3<<20 + 5} {
		content := `{"text":"` + strings.Repeat("word ", n/5) + `"}` + "\n" + `{"text":"small"}`
		path := filepath.Join(folder(t, map[string]string{"a.jsonl": content}), "a.jsonl")
		docs, _, err := read(t, []string{path}, nil, corpus.Options{})
		if err != nil || len(docs) != 2 || texts(docs)[0] != strings.Repeat("word ", n/5) || texts(docs)[1] != "small" {
			t.Errorf("%d bytes: %d documents, %v", n, len(docs), err)
		}
	}
}
