package arrowout_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"loaderd/internal/api"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// modelRow is the content of one row according to docs/reference/wire.md, built token by token.
type modelRow struct {
	IDs, Segments, Cu, Positions, Labels []int64
	Documents                            []packonline.Piece
	Sources                              []int64
	Loss                                 []int64
	Weights                              []float32
	Index                                []int32
}

func model(f *fakeRun, row []packonline.Piece, bucket int32) modelRow {
	m := modelRow{Cu: []int64{0}}
	whole := f.info.Config.Attention == runconfig.AttentionRow
	for _, p := range row {
		source := plan.RefSource(p.Doc)
		m.Sources = append(m.Sources, int64(source))
		if own := f.infos()[source].Config; own.Packing != nil {
			whole = own.Attention == runconfig.AttentionRow
		}
		p.Doc = plan.RefSequence(p.Doc)
		if f.info.Config.Documents.CanHoldMultiple() {
			in := f.within(p)
			m.Index = append(m.Index, in.Index)
			p.Start -= in.Start
		}
		m.Documents = append(m.Documents, p)
	}
	lost := false // state of the last token; runs start with tokens that have a loss
	m.Loss = []int64{}
	position := int64(0)
	for i, p := range row {
		m.Weights = append(m.Weights, f.weight(p))
		if !whole {
			position = 0
		}
		for k := range p.Length {
			segment := int64(i + 1)
			if whole {
				segment = 1
			}
			id := int64(f.token(p, k))
			m.IDs, m.Labels = append(m.IDs, id), append(m.Labels, id)
			if f.masked(p, k) {
				m.Labels[len(m.Labels)-1] = -100
			}
			if len(m.Loss) == 0 {
				m.Loss = append(m.Loss, 0)
			}
			if f.masked(p, k) != lost {
				lost = !lost
				m.Loss = append(m.Loss, 0)
			}
			m.Loss[len(m.Loss)-1]++
			m.Segments, m.Positions = append(m.Segments, segment), append(m.Positions, position)
			position++
		}
		if !whole || i == len(row)-1 {
			m.Cu = append(m.Cu, int64(len(m.IDs)))
		}
	}
	if len(m.IDs) == 0 {
		m.Loss = append(m.Loss, 0)
	}
	for k := int64(0); len(m.IDs) < int(bucket); k++ {
		m.IDs, m.Labels = append(m.IDs, int64(f.info.Config.Tokenizer.Pad)), append(m.Labels, -100)
		m.Segments, m.Positions = append(m.Segments, 0), append(m.Positions, k)
	}
	return m
}

// mask gives documents tokens without a loss, and loss weights.
func (f *fakeRun) mask() {
	f.masks = true
	for _, s := range f.steps {
		for _, row := range s.Rows {
			for k, p := range row {
				for i := range p.Length {
					if f.masked(p, i) {
						s.Masked++
						if i == 0 && f.segmentAt(row, k) {
							s.MaskedSegmentStarts++
						}
					}
				}
			}
		}
	}
}

// segmentAt reports whether piece k of a row starts an attention segment.
func (f *fakeRun) segmentAt(row []packonline.Piece, k int) bool {
	return k == 0 || len(model(f, row, 0).Cu) > 2
}

// rowOf reads row i of a record with any set of columns.
func rowOf(t *testing.T, rec arrow.Record, i int) modelRow {
	t.Helper()
	var m modelRow
	for c, f := range rec.Schema().Fields() {
		col := rec.Column(c).(*array.List)
		from, to := col.ValueOffsets(i)
		switch v := col.ListValues().(type) {
		case *array.Struct:
			for k := from; k < to; k++ {
				at := v.NumField() - 3
				if at > 0 {
					m.Index = append(m.Index, v.Field(0).(*array.Int32).Value(int(k)))
				}
				m.Documents = append(m.Documents, packonline.Piece{Doc: v.Field(at).(*array.Uint64).Value(int(k)),
					Start: v.Field(at + 1).(*array.Int32).Value(int(k)), Length: v.Field(at + 2).(*array.Int32).Value(int(k))})
			}
		case arrow.Array:
			values := make([]int64, 0, to-from)
			for k := from; k < to; k++ {
				switch v := v.(type) {
				case *array.Int32:
					values = append(values, int64(v.Value(int(k))))
				case *array.Float32:
					m.Weights = append(m.Weights, v.Value(int(k)))
				case *array.Uint16:
					values = append(values, int64(v.Value(int(k))))
				default:
					t.Fatalf("column %s is a list of %s", f.Name, v.DataType())
				}
			}
			switch f.Name {
			case "input_ids":
				m.IDs = values
			case "segment_ids":
				m.Segments = values
			case "cu_seqlens":
				m.Cu = values
			case "position_ids":
				m.Positions = values
			case "labels":
				m.Labels = values
			case "loss_runs":
				m.Loss = values
			case "sources":
				if len(values) > 0 {
					m.Sources = values
				}
			}
		}
	}
	return m
}

func TestColumns_EqualModel(t *testing.T) {
	for _, attention := range []string{runconfig.AttentionDocument, runconfig.AttentionRow} {
		for _, ids := range []string{"input_ids", "input_ids:uint16"} {
			for _, world := range []int{1, 2, 4} {
				t.Run(fmt.Sprintf("%s/%s/world=%d", attention, ids, world), func(t *testing.T) {
					f := newFake(12, 8, 37)
					f.info.Config.Attention, f.info.Config.Documents.MultiplePerMessage = attention, world == 4
					if world == 2 {
						f.info.Config.Documents.MaxTokens = runconfig.MaxTokens{At: 1, Do: runconfig.MaxSplit}
					}
					if world > 1 {
						f.mask()
					}
					c := dial(t, serve(t, f))
					for rank := range world {
						r := mustGet(t, c, fmt.Sprintf(
							`{"rank":%d,"world":%d,"columns":["documents","labels","loss_runs","loss_weights","sources","%s","cu_seqlens","position_ids","segment_ids"]}`, rank, world, ids))
						for _, step := range f.steps {
							if !r.Next() {
								t.Fatal("stream ended early:", r.Err())
							}
							first, n := state.RankID{Rank: rank, World: world}.RowRange(8)
							compareBatch(t, f, r.Record(), r.LatestAppMetadata(), step, first, n)
						}
						if r.Next() || r.Err() != nil {
							t.Fatal("want the end of the stream, got", r.Err())
						}
					}
				})
			}
		}
	}
}

// Rows of several sources have correct columns, where some sources have their own packing and attention. One source
// was added after the stream of steps started.
func TestColumns_OfSeveralSources(t *testing.T) {
	for _, attention := range []string{runconfig.AttentionDocument, runconfig.AttentionRow} {
		for _, hidden := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/hidden=%d", attention, hidden), func(t *testing.T) {
				f := newMixed(12, 8, 37, attention)
				f.hidden.Store(int64(hidden))
				f.steps[3].Rows = make([][]packonline.Piece, 8) // only padding
				f.mask()
				r := mustGet(t, dial(t, serve(t, f)),
					`{"rank":1,"world":2,"columns":["loss_weights","loss_runs","input_ids","labels","sources","segment_ids","documents","cu_seqlens","position_ids"]}`)
				for _, step := range f.steps {
					if !r.Next() {
						t.Fatal("stream ended early:", r.Err())
					}
					compareBatch(t, f, r.Record(), r.LatestAppMetadata(), step, 4, 4)
				}
			})
		}
	}
}

// A plan that refers to an unknown source causes an error, not a wrong source name.
func TestColumns_UnknownSourceIsAnError(t *testing.T) {
	f := newMixed(1, 1, 16, runconfig.AttentionDocument)
	f.steps[0].Rows[0] = []packonline.Piece{{Doc: plan.Ref(9, 1), Length: 1}}
	r, _, err := get(t, dial(t, serve(t, f)), `{}`)
	if err == nil {
		r.Next()
		err = r.Err()
	}
	if err == nil || infoOf(t, err, codes.FailedPrecondition).Reason != "PLAN_MISMATCH" {
		t.Error(err)
	}
}

func compareBatch(t *testing.T, f *fakeRun, rec arrow.Record, metadata []byte, step *plan.Step, first, n int) {
	t.Helper()
	want := api.Metadata{Run: "fake", Step: step.Index, Parts: 1, Bucket: int(step.Bucket),
		Rows: n, StepRows: len(step.Rows),
		StepSources: f.begun}
	for _, row := range step.Rows {
		m := model(f, row, step.Bucket)
		want.StepTokens += m.Cu[len(m.Cu)-1]
		for _, source := range m.Sources {
			want.StepSources = max(want.StepSources, int(source)+1)
		}
		want.StepSegments += int64(len(m.Cu) - 1)
		for k, p := range row {
			if f.segmentAt(row, k) && !f.masked(p, 0) {
				want.StepLossSegments++
			}
			for i := range p.Length {
				if !f.masked(p, i) {
					want.StepLossTokens++
				}
			}
		}
	}
	for i, row := range step.Rows[first : first+n] {
		m := model(f, row, step.Bucket)
		if diff := cmp.Diff(m, rowOf(t, rec, i)); diff != "" {
			t.Fatalf("step %d row %d (-want +got):\n%s", step.Index, first+i, diff)
		}
		for k := 1; k < len(m.Cu); k++ {
			want.MaxSeqlen = max(want.MaxSeqlen, int(m.Cu[k]-m.Cu[k-1]))
		}
		want.Tokens += m.Cu[len(m.Cu)-1]
		want.Documents += len(row)
	}
	want.Sources = map[string]api.SourceCount{} // also for rows that have only padding
	for _, row := range step.Rows[first : first+n] {
		for _, l := range model(f, row, step.Bucket).Labels {
			if l != -100 {
				want.LossTokens++
			}
		}
		for _, p := range row {
			name := f.infos()[plan.RefSource(p.Doc)].Name
			c := want.Sources[name]
			for i := range p.Length {
				if !f.masked(p, i) {
					c.LossTokens++
				}
			}
			want.Sources[name] = api.SourceCount{Tokens: c.Tokens + int64(p.Length), LossTokens: c.LossTokens}
		}
	}
	want.Weighted = f.masks
	var got api.Metadata
	if err := json.Unmarshal(metadata, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("metadata (-want +got):\n%s", diff)
	}
}

func TestSchema_KeepsColumnOrderOfTicket(t *testing.T) {
	c := dial(t, serve(t, newFake(1, 2, 8)))
	for _, tc := range []struct{ columns, want string }{
		{``, "input_ids list<item: int32, nullable>, segment_ids list<item: uint16, nullable>, "},
		{`"columns":["segment_ids","input_ids:uint16"]`,
			"segment_ids list<item: uint16, nullable>, input_ids list<item: uint16, nullable>, "},
		{`"columns":["documents"]`,
			"documents list<item: struct<sequence: uint64, start: int32, length: int32>, nullable>, "},
	} {
		got := ""
		for _, f := range mustGet(t, c, "{"+tc.columns+"}").Schema().Fields() {
			got += f.Name + " " + f.Type.String() + ", "
		}
		if got != tc.want {
			t.Errorf("columns %s:\n got %s\nwant %s", tc.columns, got, tc.want)
		}
	}
}
