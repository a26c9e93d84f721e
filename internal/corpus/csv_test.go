package corpus_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/csvtable"
)

// texts returns the data of documents.
func texts(docs []string) (all []string) {
	for _, d := range docs {
		all = append(all, d[strings.LastIndex(d, "|")+1:])
	}
	return all
}

func numbered(separator string, from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%d%san ordinary line of text number %d\n", i, separator, i)
	}
	return b.String()
}

// The whole table determines whether quotes enclose fields.
func TestCSV_QuotingFromWholeTable(t *testing.T) {
	long := numbered("\t", 0, 3000)
	dialogue := "3000\t\"Stop, he said\n3001\tand went home.\n3002\tNobody knew why.\n3003\tThe end.\"\n"
	for name, c := range map[string]struct {
		file, content string
		o             csvtable.Options
		count         int
		last, err     string
	}{
		"no quotes": {"a.tsv", "id\ttext\n1\tone\n", csvtable.Options{}, 1, "one", ""},
		"quotes are text, at the beginning": {"a.tsv",
			"id\ttext\n1\t\"starts with a quote\n2\tplain\n3\t\"whole\" then more\n", csvtable.Options{}, 3,
			`"whole" then more`, ""},
		"quotes are text, behind the first 64 KiB": {"a.tsv", "id\ttext\n" + long + dialogue, csvtable.Options{},
			3004, `The end."`, ""},
		"quotes enclose, behind the first 64 KiB": {"a.tsv",
			"id\ttext\n" + long + "3000\t\"Stop,\r\nhe said \"\"no\"\"\"\n", csvtable.Options{}, 3001,
			"Stop,\r\nhe said \"no\"", ""},
		"quotes enclose in one place and are text in another": {"a.tsv",
			"id\ttext\n" + long + "3000\t\"Stop,\nhe said\"\n" + dialogue, csvtable.Options{}, 0,
			"", `quotes (") enclose the field in line 3002, and seem to be text in line 3004`},
		"the same, off": {"a.tsv", "id\ttext\n1\t\"a\n2\tb\"\n", csvtable.Options{Quoting: csvtable.QuotingOff}, 2,
			`b"`, ""},
		"the same, on": {"a.tsv", "id\ttext\n1\t\"a\n2\tb\"\n", csvtable.Options{Quoting: csvtable.QuotingOn}, 1,
			"a\n2\tb", ""},
		"a whole line in quotes, among bare quotes": {"a.tsv", "id\ttext\n1\the said \"no\"\n2\t\"The end.\"\n",
			csvtable.Options{}, 2, `"The end."`, ""},
		"doubled quotes": {"a.tsv", "id\ttext\n1\tno\n2\t\"\"\"The\"\" end.\"\n", csvtable.Options{}, 2,
			`"The" end.`, ""},
		"quoted names":             {"a.tsv", "\"id\"\t\"text\"\n\"1\"\t\"one\"\n", csvtable.Options{}, 1, "one", ""},
		"a separator enclosed":     {"a.tsv", "id\ttext\n1\t\"o\tne\"\n", csvtable.Options{}, 1, "o\tne", ""},
		"bars":                     {"a.csv", "id|text\n1|\"o\n2|ne\"\n", csvtable.Options{}, 2, `ne"`, ""},
		"one column, two readings": {"a.csv", "text\n\"o\nne\"\n", csvtable.Options{}, 1, "o\nne", ""},
		"one column of a .tsv":     {"a.tsv", "text\none, two\n\"three\n", csvtable.Options{}, 2, `"three`, ""},
		"one column of a .tsv, two readings": {"a.tsv", "text\n\"o\nne\"\n", csvtable.Options{}, 0, "",
			`line 2 begins a field with a quote ("): it encloses several lines, or is text`},
		"a bare quote": {"a.csv", "id,text\n1,a 5\" disk\n2,\"a, b\"\n3,she said \"no\"\n",
			csvtable.Options{}, 3, `she said "no"`, ""},
		"an inner quote": {"a.csv", "id,text\n1,\"a 5\" disk\"\n", csvtable.Options{}, 1, `a 5 disk"`, ""},
		"an escaped quote": {"a.csv", "id,text\n1,\"he said \\\"hi\\\" to me\"\n2,\"a\\\\b, c\"\n",
			csvtable.Options{}, 2, `a\b, c`, ""},
		"a backslash at the end": {"a.csv", "id,text\n1,\"c:\\dir\\\"\n2,\"c:\\new\"\n", csvtable.Options{}, 2,
			`c:\new`, ""},
		"both": {"a.csv", "id,text\n1,\"a \\\"b\\\" c\"\n2,\"c:\\\"\n3,\"x\"\n4,\"a \\\"b\\\" c\"\n",
			csvtable.Options{}, 0, "",
			`a quote (") in line 2 follows a backslash`},
		"both, none": {"a.csv", "id,text\n1,\"a \\\"b\\\" c\"\n2,\"c:\\\"\n",
			csvtable.Options{Escape: csvtable.EscapeNone}, 2, `c:\`, ""},
		"escape without quotes": {"a.tsv", "id\ttext\n1\ta\\\tb\n", csvtable.Options{Quoting: csvtable.QuotingOff,
			Escape: csvtable.EscapeBackslash}, 1, "a\tb", ""},
		"carriage returns alone":    {"a.csv", "id,text\r1,one\r2,two\r3,three\r", csvtable.Options{}, 3, "three", ""},
		"byte order marks":          {"a.csv", "\ufeff\ufefftext,id\none,1\n", csvtable.Options{}, 1, "one", ""},
		"an empty field at the end": {"a.csv", "id,text\n1,", csvtable.Options{}, 1, "", ""},
	} {
		path := filepath.Join(folder(t, map[string]string{c.file: c.content}), c.file)
		docs, skipped, err := read(t, []string{path}, nil, corpus.Options{CSV: c.o})
		if c.err != "" {
			if len(docs) > 0 || err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(),
				path) {
				t.Errorf("%s: %d documents, %v, want %s", name, len(docs), err, c.err)
			}
			continue
		}
		if err != nil || len(skipped) > 0 || len(docs) != c.count || texts(docs)[c.count-1] != c.last {
			t.Errorf("%s: %d documents, the last %q, left out %q, %v", name, len(docs), texts(docs)[max(0,
				len(docs)-3):], skipped, err)
		}
	}
}

// For a table that can be read only once, its beginning determines the quoting. A later record that may contradict it
// is an error.
func TestCSV_QuotingFromStartOfStream(t *testing.T) {
	long := numbered("\t", 0, 3000)
	for name, c := range map[string]struct {
		content string
		o       csvtable.Options
		count   int
		err     string
	}{
		"no quotes": {"id\ttext\n" + long, csvtable.Options{}, 3000, ""},
		"quotes at the end": {"id\ttext\n" + long + "1\t\"x\"\n", csvtable.Options{}, 3000,
			`-:3002: the quotes of a table that can be read only once`},
		"the same, off": {"id\ttext\n" + long + "1\t\"x\"\n",
			csvtable.Options{Quoting: csvtable.QuotingOff}, 3001, ""},
		"quotes at the beginning": {"id\ttext\n1\t\"a\tb\"\n" + long + "1\t\"x\"\n", csvtable.Options{}, 3002, ""},
		"then quotes that are text": {"id\ttext\n1\t\"a\tb\"\n" + long + "1\t\"x\n2\ty\"\n", csvtable.Options{},
			3001, `seems to be text`},
		"commas": {"id,text\n" + numbered(",", 0, 3000) + "1,\"a\nb\"\n", csvtable.Options{},
			3001, ""},
		"commas, then an escape": {"id,text\n" + numbered(",", 0, 3000) + "1,\"a \\\"b\"\n", csvtable.Options{},
			3000, "--csv-escape"},
	} {
		docs, skipped, err := read(t, []string{"-"}, strings.NewReader(c.content), corpus.Options{Format: corpus.CSV,
			CSV: c.o})
		if len(docs) != c.count || len(skipped) > 0 || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d documents, left out %q, %v, want %d and %q", name, len(docs), skipped, err, c.count, c.err)
		}
	}
}

// A quoted field with more bytes than a record may have is an error. A long record of one line is skipped.
func TestCSV_MultilineFieldIsBounded(t *testing.T) {
	lines := strings.Repeat("a line of some text\n", 20_000)
	path := filepath.Join(folder(t, map[string]string{"a.csv": "id,text\n1,\"open\n" + lines + "2,\"b\"\n"}), "a.csv")
	docs, _, err := read(t, []string{path}, nil, corpus.Options{MaxDocument: 1000})
	if len(docs) > 0 || err == nil || !strings.Contains(err.Error(), "a.csv:2: a field that begins with a quote") {
		t.Errorf("%d documents, %v", len(docs), err)
	}
	path = filepath.Join(folder(t, map[string]string{"a.csv": "id,text\n1,\"" + strings.Repeat("x",
		200_000) + "\"\n2,b\n"}), "a.csv")
	docs, skipped, err := read(t, []string{path}, nil, corpus.Options{MaxDocument: 1000})
	if err != nil || len(docs) != 1 || len(skipped) != 1 || skipped[0] != "a.csv:2 too large" {
		t.Errorf("%d documents, left out %q, %v", len(docs), skipped, err)
	}
}

// A table yields the same records whatever the sizes of reads are.
func TestCSV_ReadSizeDoesNotMatter(t *testing.T) {
	content := "text,id\r\n\"a\r\nb\",1\r\rc,2\n\n\"d\"\"e\"f,3\n"
	whole, _, err := read(t, []string{"-"}, strings.NewReader(content), corpus.Options{Format: corpus.CSV})
	parts, _, partsErr := read(t, []string{"-"}, &oneByte{bytes.NewReader([]byte(content))},
		corpus.Options{Format: corpus.CSV})
	if err != nil || partsErr != nil {
		t.Fatal(err, partsErr)
	}
	want(t, "texts", texts(whole), []string{"a\r\nb", "c", `d"ef`})
	want(t, "in parts", parts, whole)
}

type oneByte struct{ r *bytes.Reader }

func (o *oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }
