package packonline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/internal/testscale"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// A run of less than a pool is flushed completely. Its additional padding relative to packing by length is at most
// 1/256 of its slots, for every retriever, set of row lengths and number of subjects. Most neighbours are related
// nevertheless.
func TestSplice_FlushPadsLittleMoreThanBucket(t *testing.T) {
	documents := testscale.Of[uint64](1500, 3000)
	one := about(0)
	for name, x := range map[string]struct {
		hint  func(uint64) *similarity.Hint
		least float64 // share of neighbours of one subject
	}{
		"twelve subjects": {about(0), .5},
		"one subject":     {func(uint64) *similarity.Hint { return one(1) }, 0},
	} {
		for _, retriever := range similarity.Retrievers {
			for _, rows := range [][]int{{2048}, {8192}, {1024, 2048, 4096, 8192}} {
				c := config("splice", rows[0], 4096, 0)
				c.Buckets, c.Splice.Retriever = rows, retriever
				byLength := c
				byLength.Method = "bucket"
				p, bucket := newPacker(t, c), newPacker(t, byLength)
				r := rand.New(rand.NewPCG(3, 4))
				var out, other packonline.Rows
				for seq := range documents {
					n := int32(min(1+math.Exp(6+r.NormFloat64()), 30_000))
					p.Add(packonline.Doc{Seq: seq, Length: n, Hint: x.hint(seq)}, &out)
					bucket.Add(packonline.Doc{Seq: seq, Length: n}, &other)
				}
				out.Reset()
				p.Flush(&out)
				bucket.Flush(&other)
				have, most := p.Counts(), bucket.Counts().Padding+bucket.Counts().Slots/256
				if have.Padding > most {
					t.Errorf("%s, %s, rows of %v: %d of %d slots are padding, bucket pads %d: at most %d can be", name, retriever,
						rows, have.Padding,
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

// If all documents have one topic, bm25 prefers short ones, because each of their tokens has more weight. It leaves
// enough of them to a flush that a run of six pools pads less than 1 %.
func TestSplice_KeepsShortDocumentsForFlush(t *testing.T) {
	const documents, pool = 6000, 1024
	c := config("splice", 2048, pool, 4*pool)
	p := newPacker(t, c)
	r := rand.New(rand.NewPCG(1, 1))
	words := rand.NewZipf(r, 1.2, 10, 20_000)
	var m similarity.TermMaker
	var out packonline.Rows
	for i, n := range lengths.LogNormal(documents, 1) {
		ids := make([]int32, min(n, 1000))
		for k := range ids {
			ids[k] = int32(words.Uint64())
		}
		p.Add(packonline.Doc{Seq: uint64(i), Length: n, Hint: &similarity.Hint{Terms: m.Terms(ids)}}, &out)
		out.Reset()
	}
	p.Flush(&out)
	if n := p.Counts(); 100*n.Padding > n.Slots {
		t.Errorf("%d of %d slots are padding, %.2f %%", n.Padding, n.Slots, 100*float64(n.Padding)/float64(n.Slots))
	}
}
