package arrowout_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"loaderd/loader/assembly"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// altered is a run whose batches a test can modify.
type altered struct {
	*fakeRun
	change func(*assembly.Batch)
}

func (a altered) Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	b, err := a.fakeRun.Assemble(ctx, s, first, n)
	a.change(b)
	return b, err
}

// firstTokens returns the tokens of the first piece.
func firstTokens(b *assembly.Batch) []int32 {
	for _, row := range b.Pieces {
		for _, p := range row {
			return b.Contents[p.Doc].Tokens[p.Start:]
		}
	}
	return nil
}

func TestStream_InvalidBatchIsAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		columns string
		change  func(*assembly.Batch)
	}{
		"id beyond uint16":         {`"input_ids:uint16"`, func(b *assembly.Batch) { firstTokens(b)[0] = 1 << 16 }},
		"negative id as uint16":    {`"input_ids:uint16"`, func(b *assembly.Batch) { firstTokens(b)[0] = -1 }},
		"documents without tokens": {`"input_ids"`, func(b *assembly.Batch) { clear(b.Contents) }},
		"too few rows of pieces":   {`"documents"`, func(b *assembly.Batch) { b.Pieces = b.Pieces[1:] }},
		"pieces beyond the row": {`"labels"`, func(b *assembly.Batch) {
			b.Pieces = [][]packonline.Piece{{{Length: 17}}, nil, nil, nil}
		}},
		"a piece without a token": {`"labels"`, func(b *assembly.Batch) {
			b.Pieces = [][]packonline.Piece{{{Length: 0}}, nil, nil, nil}
		}},
		"lengths that overflow": {`"labels"`, func(b *assembly.Batch) {
			b.Pieces = [][]packonline.Piece{{{Length: 1<<31 - 1}, {Length: 1<<31 - 1}, {Length: 3}}, nil, nil, nil}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustGet(t, dial(t, serve(t, altered{newFake(1, 4, 16), tc.change})), `{"columns":[`+tc.columns+`]}`)
			if r.Next() {
				t.Fatal("the batch was sent")
			}
			infoOf(t, r.Err(), codes.Internal)
		})
	}
}

func TestColumns_SegmentIDsAreBounded(t *testing.T) {
	for _, n := range []int{65535, 65536} {
		f := newFake(0, 1, n)
		row := make([]packonline.Piece, n)
		for i := range row {
			row[i] = packonline.Piece{Doc: uint64(i + 1), Length: 1}
		}
		f.steps = []*plan.Step{{Bucket: int32(n), Rows: [][]packonline.Piece{row}}}
		c := dial(t, serve(t, f))
		r := mustGet(t, c, `{"columns":["cu_seqlens"]}`)
		if !r.Next() || len(rowOf(t, r.Record(), 0).Cu) != n+1 {
			t.Fatalf("%d segments: cu_seqlens fails with %v", n, r.Err())
		}
		r = mustGet(t, c, `{"columns":["segment_ids"]}`)
		switch ok := r.Next(); {
		case ok && n < 65536:
			if got := rowOf(t, r.Record(), 0).Segments; got[n-1] != int64(n) {
				t.Errorf("the last segment is %d", got[n-1])
			}
		case ok || n < 65536:
			t.Errorf("%d segments: got %v, %v", n, ok, r.Err())
		default:
			if infoOf(t, r.Err(), codes.FailedPrecondition).Reason != "TOO_MANY_SEGMENTS" {
				t.Error(r.Err())
			}
		}
	}
}

func TestServer_BoundsJobsOfIdentity(t *testing.T) {
	f := newFake(1, 4, 16)
	f.last = nil // streams stay open
	s := serve(t, f)
	c := dial(t, s)
	const jobs = 64
	for i := range jobs {
		for range 2 { // a second stream of a job does not count for another job
			mustGet(t, c, fmt.Sprintf(`{"job":"job-%d"}`, i))
		}
	}
	_, _, err := get(t, c, `{"job":"another"}`)
	if infoOf(t, err, codes.Unavailable).Reason != "LIMITED" {
		t.Errorf("got %v", err)
	}
}
