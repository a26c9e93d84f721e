package flightclient

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"loaderd/internal/api"
)

// record returns a record of one list column with unchecked offsets.
func record(name string, offsets []int32, values arrow.Array) arrow.Record {
	typ := arrow.ListOf(values.DataType())
	data := array.NewData(typ, len(offsets)-1,
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))},
		[]arrow.ArrayData{values.Data()}, 0, 0)
	schema := arrow.NewSchema([]arrow.Field{{Name: name, Type: typ}}, nil)
	return array.NewRecord(schema, []arrow.Array{array.MakeFromData(data)}, int64(len(offsets)-1))
}

func int32s(n int) arrow.Array {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	for i := range n {
		b.Append(int32(i))
	}
	return b.NewArray()
}

func TestDecode_RefusesInvalidBatches(t *testing.T) {
	for _, test := range []struct {
		name, metadata string
		record         arrow.Record
		want           string
	}{
		{"no metadata", ``, record("input_ids", []int32{0, 2}, int32s(2)), "app_metadata"},
		{"other rows", `{"rows":2,"bucket":2}`, record("input_ids", []int32{0, 2}, int32s(2)),
			"1 rows, the metadata states 2"},
		{"no length", `{"rows":1}`, record("input_ids", []int32{0, 2}, int32s(2)), "of 0 tokens"},
		{"uneven rows", `{"rows":2,"bucket":2}`, record("input_ids", []int32{0, 1, 4}, int32s(4)), "row 0 has values 0 to 1"},
		{"values left over", `{"rows":1,"bucket":2}`, record("input_ids", []int32{0, 2}, int32s(3)), "3 values"},
		{"wrong ids", `{"rows":1,"bucket":1}`, record("segment_ids", []int32{0, 1}, int32s(1)), "want uint16"},
		{"offsets outside", `{"rows":1,"bucket":1}`, record("cu_seqlens", []int32{0, 9}, int32s(1)), "0 to 9 of 1"},
		{"wrong sources", `{"rows":1,"bucket":1}`, record("sources", []int32{0, 1}, int32s(1)), "want uint16"},
		{"no structs", `{"rows":1,"bucket":1}`, record("documents", []int32{0, 1}, int32s(1)), "want {sequence"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := decodeBatch(test.record, []byte(test.metadata)); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// For any offsets and metadata from a server, a decoded batch has the shape in its fields.
func FuzzDecode(f *testing.F) {
	f.Add("input_ids", 2, 2, int32(0), int32(2), int32(4), uint8(4))
	f.Add("cu_seqlens", 2, 8, int32(0), int32(3), int32(4), uint8(4))
	f.Add("cu_seqlens", 2, math.MaxInt, int32(-1), int32(3), int32(1), uint8(2))
	f.Add("labels", 2, math.MaxInt/2+1, int32(0), int32(0), int32(0), uint8(0))
	f.Fuzz(func(t *testing.T, column string, rows, bucket int, a, b, c int32, values uint8) {
		metadata, err := json.Marshal(api.Metadata{Rows: rows, Bucket: bucket})
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeBatch(record(column, []int32{a, b, c}, int32s(int(values))), metadata)
		if err != nil {
			return
		}
		if got.Rows != 2 || column == "input_ids" && len(got.InputIDs) != 2*got.L || column == "cu_seqlens" &&
			len(got.CuSeqlens) != 2 {
			t.Errorf("%s: rows %d, L %d, %d ids, %d cu_seqlens", column, got.Rows, got.L, len(got.InputIDs), len(got.CuSeqlens))
		}
	})
}
