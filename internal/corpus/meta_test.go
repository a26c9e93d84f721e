package corpus_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

func parseMeta(t *testing.T, texts ...string) (all []record.Meta) {
	t.Helper()
	for _, text := range texts {
		m, err := record.ParseMeta(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// metas returns the values of each document, or why it was skipped.
func metas(t *testing.T, path string, o corpus.Options) (out []string, _ error) {
	t.Helper()
	inputs, err := corpus.Open(t.Context(), []string{path}, nil, o)
	if err != nil {
		return nil, err
	}
	for _, in := range inputs {
		for d, err := range in.Documents(t.Context()) {
			if err != nil {
				out = append(out, err.Error())
				continue
			}
			out = append(out, d.Meta)
		}
	}
	return out, nil
}

func parquetOfMeta(t *testing.T) string {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "lang", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "n", Type: arrow.PrimitiveTypes.Int32}, {Name: "half", Type: arrow.PrimitiveTypes.Float32},
		{Name: "score", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "seen", Type: arrow.FixedWidthTypes.Boolean},
		{Name: "meta", Type: arrow.StructOf(arrow.Field{Name: "lang", Type: arrow.BinaryTypes.String})}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for _, row := range []string{`{"text":"a","lang":"en","n":1,"half":1.5,"score":0.1,"seen":true,"meta":{"lang":"x"}}`,
		`{"text":"b","lang":null,"n":-2,"half":2,"score":null,"seen":false,"meta":{"lang":"y"}}`} {
		if err := b.UnmarshalJSON([]byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	w, err := pqarrow.NewFileWriter(schema, &out, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(b.NewRecord()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Every format passes values of documents on, unchanged or with the requested type.
func TestMeta_FromEveryFormat(t *testing.T) {
	records := `{"text":"a","lang":"é\n","n":1,"score":0.5,"seen":true,"tags":[1, 2],"meta":{"lang":"x"}}` + "\n" +
		`{"text":"b","lang":null,"n":"7"}` + "\n" +
		`{"parts":[{"text":"c","loss":true}],"lang":"de"}`
	dir := folder(t, map[string]string{
		"a.jsonl": records, "a.csv": "text,lang,n\na,en,1\nb,,2\nc,de,x\n", "a.parquet": parquetOfMeta(t),
		"a.arrow": string(arrowStream(t, 2)),
		"mds/index.json": mdsIndex(t, map[string]any{"samples": 1, "raw_data": mdsFile("a.mds", 100), "compression": nil,
			"zip_data": nil}), "mds/a.mds": mdsShard("one"),
		"a.tar":      tarOf(t, "0.txt", "zero", "0.json", `{"lang":"en"}`, "1.txt", "one"),
		"a.warc":     warcRecord("conversion", "text/plain", "x"),
		"long.jsonl": `{"text":"a","lang":"` + strings.Repeat("x", 2000) + `"}`,
	})
	for _, c := range []struct {
		file string
		meta []string
		want []string
	}{
		{"a.jsonl", []string{"lang", "n"}, []string{`{"lang":"é\n","n":1}`, `{"n":"7"}`, `{"lang":"de"}`}},
		{"a.jsonl", []string{"n:int64", "of=meta.lang", "score:string"}, []string{`{"n":1,"of":"x","score":"0.5"}`,
			`{"n":7}`, ""}},
		{"a.jsonl", []string{"seen:int64", "tags:string"}, []string{`{"seen":1,"tags":"[1,2]"}`, "", ""}},
		{"a.csv", []string{"lang", "n:float64"}, []string{`{"lang":"en","n":1}`, `{"n":2}`,
			`a.csv:4: "n": "x" is no float64`}},
		{"a.parquet", []string{"lang", "n", "half", "score", "seen", "inner=meta.lang"},
			[]string{`{"lang":"en","n":1,"half":1.5,"score":0.1,"seen":1,"inner":"x"}`,
				`{"n":-2,"half":2,"seen":0,"inner":"y"}`}},
		{"a.arrow", []string{"kind", "number=id", "p=meta.path"}, []string{`{"kind":"a kind","number":1000,"p":"folder/0"}`,
			`{"kind":"a kind","number":1001,"p":"folder/1"}`}},
		{"mds", []string{"id", "name=id:string"}, []string{`{"id":100,"name":"100"}`}},
		{"a.tar", []string{"lang"}, []string{`{"lang":"en"}`, ""}},
		{"a.warc", []string{"uri=WARC-Target-URI"}, []string{`{"uri":"http://conversion"}`}},
		{"long.jsonl", []string{"lang"}, []string{`long.jsonl:1: "lang": a text has 2000 bytes, want at most 1024`}},
	} {
		got, err := metas(t, filepath.Join(dir, c.file), corpus.Options{Meta: parseMeta(t, c.meta...)})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s of %s: %q, %v, want %q", c.meta, c.file, got, err, c.want)
		}
	}
	got, err := metas(t, filepath.Join(dir, "a.jsonl"), corpus.Options{Meta: parseMeta(t, "seen", "n")})
	if err != nil || !strings.Contains(got[0], `"seen": true is neither a text nor a number`) {
		t.Errorf("a bool without a type: %q, %v", got, err)
	}
	for _, file := range []string{"a.csv", "a.parquet", "a.arrow", "mds"} {
		got, err := metas(t, filepath.Join(dir, file), corpus.Options{Meta: parseMeta(t, "absent")})
		if err == nil && (len(got) == 0 || !strings.Contains(got[0], `"absent"`)) || err != nil &&
			!strings.Contains(err.Error(), `"absent"`) {
			t.Errorf("a column that %s has not: %q, %v", file, got, err)
		}
	}
	for _, text := range []string{"", "=x", "x=", "x:bool", "x:"} {
		if _, err := record.ParseMeta(text); err == nil {
			t.Errorf("takes %q", text)
		}
	}
}
