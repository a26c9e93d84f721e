package batch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// about describes the run of these tests.
var about = loader.Info{Run: "r1", Config: runconfig.Config{
	Attention: runconfig.AttentionDocument,
	Tokenizer: runconfig.Tokenizer{Name: "gpt2", VocabSize: 50257, Pad: 50256},
	Sources:   map[string]mixture.Source{"docs": {Weight: 1, Epochs: 1}},
}, Sources: []plan.SourceInfo{{SourceBegin: plan.SourceBegin{Name: "docs", Start: 1}}}}

// The estimated memory of a part is at least the size of its message.
func TestParts_EstimateCoversMessage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mixed := about
	mixed.Config.Sources = map[string]mixture.Source{"web": {}}
	for i := range 300 { // with names of maximum length
		mixed.Sources = append(mixed.Sources, plan.SourceInfo{SourceBegin: plan.SourceBegin{Name: fmt.Sprintf("%064d", i)}})
	}
	for n := range 500 {
		info := []loader.Info{about, mixed}[n%2]
		bucket, rows := 1+rng.IntN(300), rng.IntN(20)
		s := &plan.Step{Bucket: int32(bucket)}
		for range rows {
			var row []packonline.Piece
			for free := bucket; free > 0 && rng.IntN(8) > 0; free -= int(row[len(row)-1].Length) {
				row = append(row, packonline.Piece{Doc: plan.Ref(rng.IntN(300)*(n%2), uint64(1+rng.IntN(1000))),
					Length: int32(1 + rng.IntN(min(free, 9)))})
			}
			s.Rows = append(s.Rows, row)
		}
		info.Config.Documents = runconfig.Documents{Columns: map[string]runconfig.TokenColumn{},
			Meta: map[string]string{}}
		for i, typ := range []string{runconfig.ColumnFloat32, runconfig.ColumnFloat16, runconfig.ColumnInt8,
			runconfig.ColumnBool} {
			info.Config.Documents.Columns[fmt.Sprintf("column_%d_%060d", i, 0)] = runconfig.TokenColumn{Type: typ}
		}
		for i, typ := range []string{runconfig.MetaString, runconfig.MetaInt64, runconfig.MetaFloat64} {
			info.Config.Documents.Meta[fmt.Sprintf("value_%d_%060d", i, 0)] = typ
		}
		contents := map[uint64]document.Content{} // each with a text of maximum length
		for _, row := range s.Rows {
			for _, p := range row {
				text := fmt.Sprintf("%*d", runconfig.MaxMetaBytes, len(contents))
				contents[p.Doc] = document.Content{Tokens: make([]int32, bucket),
					Extra: &document.Extra{Meta: []any{text, nil, 0.5}}}
			}
		}
		var columns []Column
		for _, c := range runColumns(info.Config) {
			if rng.IntN(2) == 0 {
				columns = append(columns, c)
			}
		}
		b := &assembly.Batch{Bucket: bucket, Rows: rows, Pieces: s.Rows, Contents: contents}
		m, _, err := NewEncoder(columns, NewSources(info.Config, info.Sources, nil), NewBufferPool()).Encode(b,
			api.Metadata{Run: info.Run})
		if err != nil {
			t.Fatal(err)
		}
		if want := (Part{0, rows}).MemoryBound(s, columns); int64(m.Size()) > want {
			t.Fatalf("%d rows of %d: expected %d bytes for a message of %d", rows, bucket, want, m.Size())
		}
	}
}

// Documents cannot define a column with the name of a built-in column.
func TestColumns_BuiltInNamesAreReserved(t *testing.T) {
	for _, c := range AllColumns {
		cfg := runconfig.Config{Documents: runconfig.Documents{Meta: map[string]string{c.name: runconfig.MetaString}}}
		taken := false
		for _, bad := range cfg.Validate() {
			taken = taken || bad.Field == "documents.meta."+c.name
		}
		if !taken {
			t.Errorf("documents may have a column %s", c.name)
		}
	}
}
