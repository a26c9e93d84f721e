package arrowout_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"loaderd/arrowout"
	"loaderd/loader/document"
	"loaderd/loader/runconfig"
)

var besideConfig = runconfig.Documents{
	MultiplePerMessage: true,
	Columns: map[string]runconfig.TokenColumn{
		"half": {Type: runconfig.ColumnFloat16, Fill: -0.5}, "single": {Type: runconfig.ColumnFloat32, Fill: 1.5},
		"byte":  {Type: runconfig.ColumnInt8, Fill: -3},
		"short": {Type: runconfig.ColumnInt16, Fill: -300}, "int": {Type: runconfig.ColumnInt32, Fill: -70000},
		"flag":    {Type: runconfig.ColumnBool, Fill: 1},
		"skipped": {Type: runconfig.ColumnNone},
	},
	Meta: map[string]string{"lang": runconfig.MetaString, "year": runconfig.MetaInt64, "score": runconfig.MetaFloat64},
}

// valueAt returns the value of token i of a document in a column.
func valueAt(document uint64, i int) float64 { return float64((document*31 + uint64(i)) % 100) }

func textOf(document uint64) string {
	return [...]string{"de", "", "a longer text, with ümlauts", "fr"}[document/4%4]
}

// besideOf returns the extra columns and values of a document. Every fourth document has no columns, every third no
// values.
func besideOf(ref uint64) document.Content {
	const tokens = 400
	b := &document.Extra{}
	if ref%4 > 0 {
		for _, name := range besideConfig.TokenColumns() {
			var out []byte
			for i := range tokens {
				v := valueAt(ref, i)
				switch name {
				case "half":
					out = binary.LittleEndian.AppendUint16(out, float16.New(float32(v)).Uint16())
				case "single":
					out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
				case "byte":
					out = append(out, byte(v))
				case "short":
					out = binary.LittleEndian.AppendUint16(out, uint16(v))
				case "int":
					out = binary.LittleEndian.AppendUint32(out, uint32(v))
				case "flag":
					out = append(out, byte(int(v)%2))
				}
			}
			b.Columns = append(b.Columns, out)
		}
		if ref%8 == 1 {
			b.Columns[slices.Index(besideConfig.TokenColumns(), "int")] = nil
		}
	}
	if ref%3 > 0 {
		b.Meta = []any{textOf(ref), float64(ref) / 4, int64(ref)}
		if ref%6 == 1 {
			b.Meta[1] = nil
		}
	}
	return document.Content{Extra: b}
}

// Extra columns of documents are sent with their tokens, with fill values where a document has none. Values of
// documents are sent with their pieces.
func TestExtraColumns_SentWithTokens(t *testing.T) {
	f := newFake(12, 32, 200)
	f.info.Config.Documents, f.contents = besideConfig, besideOf
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.BatchBytes = 64 << 10 }))
	columns := append(besideConfig.TokenColumns(), besideConfig.MetaColumns()...)
	ticket := `{"rank":0,"world":1,"columns":["input_ids"`
	for _, name := range columns {
		ticket += fmt.Sprintf(",%q", name)
	}
	r, _, err := get(t, c, ticket+"]}")
	if err != nil {
		t.Fatal(err)
	}
	records, missing := 0, 0
	for step := 0; step < len(f.steps); {
		for row := 0; row < 32; {
			if !r.Next() {
				t.Fatal(r.Err())
			}
			record := r.Record()
			records++
			for i := range int(record.NumRows()) {
				pieces := f.steps[step].Rows[row+i]
				for k, name := range columns {
					values, from, to := listOf(record.Column(k+1), i)
					var got, want []any
					for j := from; j < to; j++ {
						got = append(got, anyOf(values, j))
					}
					if _, is := besideConfig.Meta[name]; is {
						for _, p := range pieces {
							var v any
							if m := besideOf(p.Doc).Extra.Meta; m != nil {
								v = m[slices.Index(besideConfig.MetaColumns(), name)]
							}
							if v == nil {
								missing++
							}
							want = append(want, v)
						}
					} else {
						fill, flag := float64(besideConfig.Columns[name].Fill), name == "flag"
						for _, p := range pieces {
							for j := range int(p.Length) {
								v := valueAt(p.Doc, int(p.Start)+j)
								if flag {
									v = float64(int(v) % 2)
								}
								if p.Doc%4 == 0 || name == "int" && p.Doc%8 == 1 {
									v = fill
								}
								want = append(want, v)
							}
						}
						for len(want) < 200 {
							want = append(want, fill)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("step %d row %d column %s (-want +got):\n%s", step, row+i, name, diff)
					}
				}
			}
			row += int(record.NumRows())
		}
		step++
	}
	if records <= len(f.steps) || missing == 0 {
		t.Errorf("%d batches, and %d values missing: the test shows nothing", records, missing)
	}
}

func listOf(a arrow.Array, i int) (values arrow.Array, from, to int) {
	l := a.(*array.List)
	start, end := l.ValueOffsets(i)
	return l.ListValues(), int(start), int(end)
}

func anyOf(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Float16:
		return float64(a.Value(i).Float32())
	case *array.Float32:
		return float64(a.Value(i))
	case *array.Int8:
		return float64(a.Value(i))
	case *array.Int16:
		return float64(a.Value(i))
	case *array.Int32:
		return float64(a.Value(i))
	case *array.Boolean:
		if a.Value(i) {
			return 1.0
		}
		return 0.0
	case *array.Dictionary:
		return a.Dictionary().(*array.String).Value(a.GetValueIndex(i))
	case *array.Int64:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	}
	panic(a.DataType())
}

// An unknown column is refused with the names of the available columns, which the run's info lists too.
func TestExtraColumns_UnknownNameListsColumns(t *testing.T) {
	f := newFake(1, 1, 16)
	f.info.Config.Documents, f.contents = besideConfig, besideOf
	c := dial(t, serve(t, f))
	for _, name := range []string{"skipped", "teacher"} {
		_, _, err := get(t, c, `{"rank":0,"world":1,"columns":["`+name+`"]}`)
		if got := infoOf(t, err, codes.InvalidArgument); got.Reason != "INVALID_TICKET" {
			t.Error(got)
		}
	}
	if _, _, err := get(t, c, `{"rank":0,"world":1,"columns":["byte","byte"]}`); infoOf(t, err,
		codes.InvalidArgument).Reason != "INVALID_TICKET" {
		t.Error(err)
	}
}
