package corpus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// parquetOf returns a record batch as a Parquet file.
func parquetOf(t *testing.T, record arrow.Record) string {
	t.Helper()
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(record.Schema(), &b, nil, pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(record); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// ipcOf returns a record batch as an Arrow IPC stream.
func ipcOf(t *testing.T, record arrow.Record) string {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(record.Schema()))
	if err := w.Write(record); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestColumns_RefusesDuplicateNames(t *testing.T) {
	var fields []arrow.Field
	var columns []arrow.Array
	for _, name := range []string{"text", "text", "key", "key", "other"} {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		b.Append(name)
		fields, columns = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.String}),
			append(columns, b.NewArray())
	}
	namesakes := array.NewRecord(arrow.NewSchema(fields, nil), columns, 1)
	index := `{"version": 2, "shards": [{"version": 2, "format": "mds", "column_names": ["text", "text", "key", "key", "other"],
		"column_encodings": ["str", "str", "str", "str", "str"], "column_sizes": [null, null, null, null, null], "compression": null, "hashes": [], "samples": 0,
		"raw_data": {"basename": "a.mds", "bytes": 8, "hashes": {}}, "zip_data": null}]}`
	for name, files := range map[string]map[string]string{
		"CSV":   {"a.csv": "text,text,key,key,other\na,b,k,l,o\n"},
		"Arrow": {"a.arrow": ipcOf(t, namesakes)}, "Parquet": {"a.parquet": parquetOf(t, namesakes)},
		"MDS": {"index.json": index, "a.mds": string(little.AppendUint32(little.AppendUint32(nil, 0), 8))},
	} {
		dir := folder(t, files)
		for _, c := range []struct {
			o    corpus.Options
			want string
		}{
			{corpus.Options{}, `2 columns are named "text"`},
			{corpus.Options{TextField: "other", IDField: "key"}, `2 columns are named "key"`},
			{
				corpus.Options{TextField: "other", Meta: []record.Meta{{Name: "key", Column: "key"}}},
				`2 columns are named "key"`,
			},
			{corpus.Options{TextField: "other"}, ""},
		} {
			_, _, err := read(t, []string{dir}, nil, c.o)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %+v: %v, want %q", name, c.o, err, c.want)
			}
		}
	}
}

func TestOptions_RefuseColumnNamedTwice(t *testing.T) {
	for _, c := range []struct {
		o    corpus.Options
		want string
	}{
		{corpus.Options{IDField: "text"}, `column "text" is set twice`},
		{corpus.Options{TextField: "a", IDField: "a"}, `column "a" is set twice`},
		{corpus.Options{Tokens: true, IDField: "ids"}, `column "ids" is set twice`},
		{
			corpus.Options{Meta: []record.Meta{{Name: "a", Column: "a"}, {Name: "a", Column: "b"}}},
			`--meta names "a" twice`,
		},
		{corpus.Options{IDField: "a", Meta: []record.Meta{{Name: "a", Column: "a"}, {Name: "b", Column: "a"}}}, ""},
	} {
		if err := c.o.CheckColumns(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

func TestTokens_ErrorGivesPositionOfNull(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)}}, nil)
	rows := `[{"ids":[1]},{"ids":[1,null]}]`
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"a.jsonl": `{"ids":[1]}` + "\n" + `{"ids":[1,null]}`, "a.json": rows, "a.arrow": ipcOf(t, record),
		"a.parquet": parquetOf(t, record),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{Tokens: true})
		if err != nil {
			t.Fatal(err)
		}
		var problems []string
		for _, err := range inputs[0].Documents(t.Context()) {
			if err != nil {
				problems = append(problems, err.Error())
			}
		}
		if len(problems) != 1 || !strings.Contains(problems[0], ": token 1 is null") ||
			!strings.HasPrefix(problems[0], name+":") {
			t.Errorf("%s: %q", name, problems)
		}
	}
}
