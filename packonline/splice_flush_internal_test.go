package packonline

import (
	"math/rand/v2"
	"testing"

	"loaderd/packonline/similarity"
)

// Invariant 7: a flush of splice pads at most as much as a flush of bucket with the same pieces, plus 1/256 of its
// slots.
func TestSplice_FlushBound(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := Config{Method: "splice", Buckets: []int{16 << r.IntN(8)}, Atom: 1, Pool: 1 + r.IntN(300),
			Splice: Splice{Retriever: "bm25",
				K: 1 + r.IntN(3), Order: "identity", Fill: "exact", Postings: 4096, Dimension: 4}}
		for len(c.Buckets) < 4 && r.IntN(2) > 0 {
			c.Buckets = append(c.Buckets, c.Buckets[len(c.Buckets)-1]+1+r.IntN(2000))
		}
		if bad := c.Validate(); len(bad) > 0 {
			t.Fatal(bad)
		}
		p := newSplice(c).(*splice)
		var out Rows
		shortest, span := 1+r.Int32N(300), 1+r.Int32N(2000)
		for seq := range uint64(r.IntN(600)) {
			hint := &similarity.Hint{Terms: []uint32{uint32(r.IntN(5))<<8 | 9}}
			p.Add(Doc{Seq: seq, Length: shortest + r.Int32N(span), Hint: hint}, &out)
			if r.IntN(200) > 0 {
				continue
			}
			checkFlush(t, p)
		}
		checkFlush(t, p)
	}
}

func checkFlush(t *testing.T, p *splice) {
	t.Helper()
	b := newBucket(Config{Method: "bucket", Buckets: p.config.Buckets, Atom: 1, Pool: p.config.Pool}).(*bucket)
	var tokens int64
	for _, w := range p.pool.listPieces() {
		b.countDocument(Doc{Seq: w.doc, Length: w.length})
		b.pool.add(w, bucketFor(b.lengths, w.length))
		tokens += int64(w.length)
	}
	var out Rows
	before := p.counts
	b.Flush(&out)
	out.Reset()
	p.Flush(&out)
	slots, padding := p.counts.Slots-before.Slots, p.counts.Padding-before.Padding
	if most := b.counts.Padding + b.counts.Slots/256; padding > most || slots-padding != tokens || p.pool.pieces > 0 {
		t.Fatalf("%+v: the flush of %d tokens has %d slots and %d padding, %d can be; %d pieces are left", p.config, tokens,
			slots, padding, most, p.pool.pieces)
	}
}
