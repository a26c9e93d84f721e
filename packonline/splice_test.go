package packonline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

func randomSplice(r *rand.Rand) packonline.Splice {
	return packonline.Splice{
		Retriever:     similarity.Retrievers[r.IntN(3)],
		K:             1 + r.IntN(3),
		Order:         packonline.Orders[r.IntN(2)],
		Fill:          packonline.Fills[min(1, r.IntN(3)/2)],
		PathBonus:     []int{0, 30}[r.IntN(2)],
		NearDuplicate: []int{0, 75}[r.IntN(2)],
		Postings:      []int{4096, 20}[r.IntN(2)],
		Dimension:     16,
	}
}

// giveHints passes the missing hints to a restored Packer.
func giveHints(p packonline.Packer, hint func(uint64) *similarity.Hint) {
	if hinted, ok := p.(packonline.HintedPacker); ok {
		for _, d := range hinted.MissingHints() {
			hinted.SetHint(d, hint(d))
		}
	}
}

var hints sync.Map // by document

// hintOf returns a document's hint: one of few subjects, with additional words and numbers of the document itself.
// One document in ten has no hint.
func hintOf(seq uint64) *similarity.Hint {
	if h, ok := hints.Load(seq); ok {
		return h.(*similarity.Hint)
	}
	h := makeHint(seq)
	hints.Store(seq, h)
	return h
}

func makeHint(seq uint64) *similarity.Hint {
	r := rand.New(rand.NewPCG(seq, 1))
	if r.IntN(10) == 0 {
		return nil
	}
	subject := r.IntN(12)
	h := &similarity.Hint{Source: uint32(r.IntN(5) / 4)}
	var m similarity.TermMaker
	ids := make([]int32, 1+r.IntN(30))
	for i := range ids {
		ids[i] = int32(20*subject + r.IntN(30))
	}
	h.Terms = m.Terms(ids)
	h.Path = similarity.PathHashes([]string{"a/b/one", "a/b/two", "a/three", "c/d/e/four", ""}[subject%5])
	v := make([]float32, 16)
	for i := range v {
		v[i] = float32((subject*(i+3))%7-3) + r.Float32()
	}
	h.Vector, _ = similarity.NormalizeVector(v, 16)
	return h
}

func spliceConfig(retriever, fill string) packonline.Config {
	c := config("splice", 512, 200, 0)
	c.Splice.Retriever, c.Splice.Fill = retriever, fill
	return c
}

// spliced packs documents of random lengths and returns the rows emitted before the flush, as the documents in them.
func spliced(t *testing.T, c packonline.Config, n int, hint func(uint64) *similarity.Hint) (rows [][]packonline.Piece) {
	t.Helper()
	p := newPacker(t, c)
	r := rand.New(rand.NewPCG(8, 8))
	var out packonline.Rows
	for seq := range uint64(n) {
		p.Add(packonline.Doc{Seq: seq, Length: 1 + r.Int32N(150), Hint: hint(seq)}, &out)
		for i := range out.Len() {
			_, pieces, _ := out.Row(i)
			rows = append(rows, slices.Clone(pieces))
		}
		out.Reset()
	}
	return rows
}

const subjects = 12

func subjectOf(seq uint64) int { return rand.New(rand.NewPCG(seq, 2)).IntN(subjects) }

// about returns hints with a document's subject, or with a random one for a share of the documents.
func about(noise float64) func(seq uint64) *similarity.Hint {
	var m similarity.TermMaker
	return func(seq uint64) *similarity.Hint {
		r := rand.New(rand.NewPCG(seq, 3))
		subject := subjectOf(seq)
		if r.Float64() < noise {
			subject = r.IntN(subjects)
		}
		ids := make([]int32, 30)
		v := make([]float32, 16)
		for i := range ids {
			ids[i] = int32(1000 + 30*subject + r.IntN(40))
		}
		for i := range v {
			v[i] = float32(rand.New(rand.NewPCG(uint64(subject), uint64(i))).NormFloat64()) + r.Float32()/2
		}
		vector, err := similarity.NormalizeVector(v, 16)
		if err != nil {
			panic(err)
		}
		return &similarity.Hint{Terms: m.Terms(ids),
			Path:   similarity.PathHashes(fmt.Sprintf("root/%d/%d", subject, r.IntN(5))),
			Vector: vector}
	}
}

// alike returns the share of neighbours that have the same subject.
func alike(rows [][]packonline.Piece) float64 {
	same, n := 0, 0
	for _, row := range rows {
		for i := 1; i < len(row); i++ {
			n++
			if subjectOf(row[i-1].Doc) == subjectOf(row[i].Doc) {
				same++
			}
		}
	}
	return float64(same) / float64(n)
}

// Neighbours have the same subject much more often than in example packing, even if half of the hints are random. The
// paper's Table 7 keeps half of the gain with 50 % of noise.
func TestSplice_NeighboursAreRelated(t *testing.T) {
	const n = 6000
	random := alike(spliced(t, config("concat", 512, 200, 0), n, about(0)))
	if random > 2./subjects {
		t.Fatalf("example packing has %.3f of its neighbours alike", random)
	}
	for _, retriever := range similarity.Retrievers {
		for _, fill := range packonline.Fills {
			clear := alike(spliced(t, spliceConfig(retriever, fill), n, about(0)))
			noisy := alike(spliced(t, spliceConfig(retriever, fill), n, about(0.5)))
			t.Logf("%s, %s: %.3f of the neighbours alike, %.3f with noise, %.3f in example packing", retriever, fill, clear,
				noisy, random)
			if clear < 6*random || noisy < 2*random || noisy > clear {
				t.Errorf("%s, %s: %.3f of the neighbours alike, %.3f with noise, %.3f in example packing", retriever, fill, clear,
					noisy, random)
			}
		}
	}
}

// TestSplice_TrimMatchesPaper checks rows against Algorithm 1 with k = 1: each document is the most related one
// to the document before it, among those that are buffered and not in the row.
func TestSplice_TrimMatchesPaper(t *testing.T) {
	for _, retriever := range similarity.Retrievers {
		c := spliceConfig(retriever, "trim")
		c.Pool = 60
		p := newPacker(t, c)
		hint := about(0.2)
		r := rand.New(rand.NewPCG(9, 9))
		pool := map[uint64]similarity.Entry{}
		var out packonline.Rows
		checked := 0
		for seq := range uint64(2000) {
			d := packonline.Doc{Seq: seq, Length: 1 + r.Int32N(150), Hint: hint(seq)}
			pool[seq] = similarity.Entry{Seq: seq, Length: d.Length, Hint: d.Hint}
			before := p.Counts().Dropped
			p.Add(d, &out)
			for i := range out.Len() {
				length, row, _ := out.Row(i)
				x := similarity.New(*c.SimilarityConfig())
				for _, e := range pool {
					x.Add(int32(e.Seq), e)
				}
				var used int32
				for k, piece := range row {
					if k > 0 {
						best := x.Top(int32(row[k-1].Doc), 1, 1<<30, nil)
						if len(best) > 0 && best[0].Slot != int32(piece.Doc) {
							t.Fatalf("%s: document %d follows %d, the most related one is %d", retriever, piece.Doc, row[k-1].Doc,
								best[0].Slot)
						}
						checked += len(best)
					}
					x.SetHidden(int32(piece.Doc), true)
					if e := pool[piece.Doc]; k < len(row)-1 && piece.Length != e.Length {
						t.Fatalf("%s: document %d is cut in the middle of a row", retriever, piece.Doc)
					}
					used += piece.Length
				}
				last := row[len(row)-1]
				if used != length || p.Counts().Dropped-before != int64(pool[last.Doc].Length-last.Length) {
					t.Fatalf("%s: a row of %d has %d tokens, %d are dropped of %d", retriever, length, used, p.Counts().Dropped-before,
						pool[last.Doc].Length)
				}
				for _, piece := range row {
					delete(pool, piece.Doc)
				}
			}
			out.Reset()
		}
		if checked < 500 {
			t.Errorf("%s: %d neighbours were checked", retriever, checked)
		}
	}
}

func hintless(uint64) *similarity.Hint { return nil }

// TestSplice_AcceptsArbitraryHints checks that rows have all guarantees for arbitrary hints.
func TestSplice_AcceptsArbitraryHints(t *testing.T) {
	var m similarity.TermMaker
	same := m.Terms([]int32{7, 7, 8})
	for name, hint := range map[string]func(uint64) *similarity.Hint{
		"none":  hintless,
		"empty": func(uint64) *similarity.Hint { return &similarity.Hint{} },
		"all the same": func(uint64) *similarity.Hint {
			return &similarity.Hint{Terms: same, Path: similarity.PathHashes("a/b"),
				Vector: []int8{100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
					0, 0, 0, 0}}
		},
		"sources of their own": func(seq uint64) *similarity.Hint {
			return &similarity.Hint{Source: uint32(seq), Terms: same, Path: similarity.PathHashes("a/b")}
		},
	} {
		for _, retriever := range similarity.Retrievers {
			for _, fill := range packonline.Fills {
				c := spliceConfig(retriever, fill)
				c.Pool = 40
				l, err := newLedger(c)
				if err != nil {
					t.Fatal(err)
				}
				l.hint = hint
				r := rand.New(rand.NewPCG(10, 10))
				for seq := range uint64(1500) {
					if err := l.pack(seq, 1+r.Int32N(300)*(1+r.Int32N(50)/49*20)); err != nil {
						t.Fatalf("%s, %s, %s: %v", name, retriever, fill, err)
					}
				}
				if err := l.flush(); err != nil {
					t.Fatalf("%s, %s, %s: %v", name, retriever, fill, err)
				}
			}
		}
	}
}

// Retrieval is restricted to a source: if each subject has its own source, two neighbours chosen by retrieval never
// differ.
func TestSplice_RetrievalStaysWithinSource(t *testing.T) {
	hint := about(0)
	sources := func(seq uint64) *similarity.Hint {
		h := *hint(seq)
		h.Source = uint32(seq % 2)
		return &h
	}
	rows := spliced(t, spliceConfig("bm25", "trim"), 3000, sources)
	mixed, n := 0, 0
	for _, row := range rows {
		for i := 1; i < len(row); i++ {
			n++
			if row[i].Doc%2 != row[i-1].Doc%2 {
				mixed++
			}
		}
	}
	if mixed > n/50 { // if no document of the source is left, a row continues with another root
		t.Errorf("%d of %d neighbours are of different sources", mixed, n)
	}
}
