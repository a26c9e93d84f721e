package packonline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"loaderd/packonline"
	"loaderd/packonline/related"
)

// A run of less than a pool is flushed as a whole. It pads at most 1/256 of its slots more than packing by length does, whatever the
// retriever, the row lengths and the number of subjects, and most neighbours are related all the same.
func TestSplice_FlushPadsLittleMoreThanBucket(t *testing.T) {
	const documents = 3000
	one := about(0)
	for name, x := range map[string]struct {
		hint  func(uint64) *related.Hint
		least float64 // share of neighbours of one subject
	}{
		"twelve subjects": {about(0), .5},
		"one subject":     {func(uint64) *related.Hint { return one(1) }, 0},
	} {
		for _, retriever := range related.Retrievers {
			for _, rows := range [][]int{{2048}, {8192}, {1024, 2048, 4096, 8192}} {
				c := config("splice", rows[0], 4096, 0)
				c.Buckets, c.Splice.Retriever = rows, retriever
				byLength := c
				byLength.Method = "bucket"
				p, bucket := newPacker(t, c), newPacker(t, byLength)
				r := rand.New(rand.NewPCG(3, 4))
				var out, other packonline.Rows
				for seq := range uint64(documents) {
					n := int32(min(1+math.Exp(6+r.NormFloat64()), 30_000))
					p.Add(packonline.Doc{Seq: seq, Length: n, Hint: x.hint(seq)}, &out)
					bucket.Add(packonline.Doc{Seq: seq, Length: n}, &other)
				}
				out.Reset()
				p.Flush(&out)
				bucket.Flush(&other)
				have, most := p.Counts(), bucket.Counts().Padding+bucket.Counts().Slots/256
				if have.Padding > most {
					t.Errorf("%s, %s, rows of %v: %d of %d slots are padding, bucket pads %d: at most %d can be", name, retriever, rows, have.Padding,
						have.Slots, bucket.Counts().Padding, most)
				}
				var packed [][]packonline.Piece
				for i := range out.Len() {
					_, pieces, _ := out.Row(i)
					packed = append(packed, pieces)
				}
				if share := alike(packed); share < x.least {
					t.Errorf("%s, %s, rows of %v: %.2f of the neighbours are alike", name, retriever, rows, share)
				}
			}
		}
	}
}
