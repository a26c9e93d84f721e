package similarity_test

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/packonline/similarity"
)

// document is a document of the tests with its slot.
type document struct {
	slot int32
	similarity.Entry
}

// config draws a configuration. Its bounds on work are wide; the next test is for the effect of bounds.
func config(r *rand.Rand, retriever string) similarity.Config {
	return similarity.Config{Retriever: retriever, PathBonus: []int{0, 50, similarity.MaxPercent}[r.IntN(3)],
		NearDuplicate: []int{0, 75, similarity.MaxPercent}[r.IntN(3)], Postings: similarity.MaxPostings, Dimension: 70}
}

// draw returns a document of one of a few subjects.
func draw(r *rand.Rand, m *similarity.HintMaker, c similarity.Config, seq uint64) similarity.Entry {
	e := similarity.Entry{Seq: seq, Length: 1 + r.Int32N(100)}
	if r.IntN(20) == 0 {
		return e
	}
	subject := r.IntN(6)
	ids := make([]int32, r.IntN(200))
	for i := range ids {
		ids[i] = int32(40*subject + r.IntN(60))
	}
	var vector []int8
	if r.IntN(20) > 0 {
		v := make([]float32, c.Dimension)
		for i := range v {
			v[i] = float32((subject*i)%5-2) + 2*r.Float32()
		}
		vector, _ = similarity.NormalizeVector(v, c.Dimension)
	}
	path := []string{"", "a/b/c.go", "a/b/d.go", "a/e.go", "f.go", "g/h/i/j/k.go"}[r.IntN(6)]
	e.Hint = m.Hint([]string{"one", "two"}[r.IntN(5)/4], ids, path, vector)
	return e
}

// brute returns the result of Top, computed from the definitions only.
func brute(c similarity.Config, pool []document, asking document, k int, longest int32) (out []similarity.Candidate) {
	h := asking.Hint
	if h == nil {
		return nil
	}
	score := map[string]func(document) int64{
		"bm25": bm25(pool, h, c.Postings),
		"dense": func(d document) int64 {
			return dot(h.Vector, d.Hint.Vector)
		},
		"repo": func(d document) int64 {
			for i, p := range h.Path {
				if slices.Contains(d.Hint.Path, p) {
					return int64(len(h.Path) + 1 - i)
				}
			}
			return 0
		},
	}[c.Retriever]
	if c.Retriever == "repo" {
		c.PathBonus, c.NearDuplicate = 0, 0
	}
	own := score(asking)
	seq := map[int32]uint64{}
	for _, d := range pool {
		if d.Hint == nil || d.slot == asking.slot || d.Length > longest || d.Hint.Source != h.Source {
			continue
		}
		s := score(d)
		if s <= 0 || c.NearDuplicate > 0 && s > own*int64(c.NearDuplicate)/100 {
			continue
		}
		if len(h.Path) > 1 && len(d.Hint.Path) > 1 && h.Path[1] == d.Hint.Path[1] {
			s += s * int64(c.PathBonus) / 100
		}
		seq[d.slot] = d.Seq
		out = append(out, similarity.Candidate{Slot: d.slot, Score: int32(s)})
	}
	slices.SortFunc(out, func(a, b similarity.Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(seq[a.Slot], seq[b.Slot]))
	})
	return out[:min(k, len(out))]
}

// log16 is log2 in sixteenths, rounded down.
func log16(x int) int64 {
	return int64(math.Floor(16*math.Log2(float64(x)) + 1e-9))
}

// bm25 returns a function of the score of a document: the sum over the 32 most valuable terms of the query. It omits
// terms with lists longer than the rest of bound.
func bm25(pool []document, h *similarity.Hint, bound int) func(document) int64 {
	n, df := 0, map[uint32]int{}
	for _, x := range pool {
		if x.Hint != nil {
			n++
			for _, t := range x.Hint.Terms {
				df[t>>8]++
			}
		}
	}
	rarity := func(id uint32) int64 { return max(0, log16(2*n+2)-log16(2*df[id]+1)) }
	terms := slices.Clone(h.Terms)
	slices.SortStableFunc(terms, func(a, b uint32) int {
		return int(rarity(b>>8)*int64(b&255) - rarity(a>>8)*int64(a&255))
	})
	var looked []uint32
	for _, t := range terms[:min(len(terms), 32)] {
		if n := df[t>>8]; rarity(t>>8) > 0 && n <= bound {
			bound -= n
			looked = append(looked, t)
		}
	}
	return func(d document) (sum int64) {
		for _, t := range looked {
			for _, u := range d.Hint.Terms {
				if u>>8 == t>>8 {
					sum += max(1, rarity(t>>8)*rarity(t>>8)*int64(t&255)>>12) * int64(u&255)
				}
			}
		}
		return sum
	}
}

func dot(a, b []int8) (sum int64) {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	for i, x := range a {
		sum += int64(x) * int64(b[i])
	}
	return sum
}

// TestTop_EqualsBruteForce compares every result with one computed from the definitions, while documents are added,
// removed and hidden. Pools are small enough that dense compares all documents exactly.
func TestTop_EqualsBruteForce(t *testing.T) {
	for _, retriever := range similarity.Retrievers {
		for seed := range uint64(12) {
			t.Run(fmt.Sprint(retriever, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 3))
				c := config(r, retriever)
				x, m := similarity.New(c), similarity.NewHintMaker(c)
				var pool []document
				free := r.Perm(120)
				for seq := range uint64(400) {
					if len(pool) > 100 || len(pool) > 0 && r.IntN(3) == 0 {
						i := r.IntN(len(pool))
						x.Remove(pool[i].slot)
						free = append(free, int(pool[i].slot))
						pool = slices.Delete(pool, i, i+1)
						continue
					}
					d := document{int32(free[0]), draw(r, m, c, seq)}
					free = free[1:]
					pool = append(pool, d)
					x.Add(d.slot, d.Entry)
					asking := pool[r.IntN(len(pool))]
					k, longest := 1+r.IntN(20), 1+r.Int32N(150)
					// in the model, a hidden document never fits
					seen := slices.Clone(pool)
					hidden := r.IntN(len(pool))
					if pool[hidden].slot != asking.slot {
						x.SetHidden(pool[hidden].slot, true)
						seen[hidden].Length = math.MaxInt32
					}
					got := x.Top(asking.slot, k, longest, nil)
					if want := brute(c, seen, asking, k, longest); !slices.Equal(got, want) {
						t.Fatalf("%+v:\n got %v\nwant %v", c, got, want)
					}
					x.SetHidden(pool[hidden].slot, false)
				}
			})
		}
	}
}

// TestBM25_EqualsDefinitionInChangingPools compares results with those from the definitions in special cases. Pools
// have documents that are replaced many times in the same slots, and copies with equal scores. Bounds omit lists, and
// queries have one result or many.
func TestBM25_EqualsDefinitionInChangingPools(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := config(r, "bm25")
		c.Postings = 1 << (4 + r.IntN(9))
		x, m := similarity.New(c), similarity.NewHintMaker(c)
		pool := make([]document, 40+r.IntN(160))
		for seq := range uint64(2500) {
			slot := r.IntN(len(pool))
			if seq < uint64(len(pool)) {
				slot = int(seq)
			} else {
				x.Remove(int32(slot))
			}
			e := draw(r, m, c, seq^1) // not exactly in order
			if other := pool[r.IntN(len(pool))]; r.IntN(3) == 0 && other.Hint != nil {
				e.Hint = other.Hint
			}
			if e.Hint != nil && seed%2 == 0 { // 0 is a valid source
				h := *e.Hint
				h.Source = 0
				e.Hint = &h
			}
			pool[slot] = document{int32(slot), e}
			x.Add(int32(slot), e)
			if seq < uint64(len(pool)) || seq%50 > 0 {
				continue
			}
			asking := pool[r.IntN(len(pool))]
			k, longest := []int{1, 2, 1 + r.IntN(len(pool))}[r.IntN(3)], 50+r.Int32N(100)
			if got, want := x.Top(asking.slot, k, longest, nil), brute(c, pool, asking, k, longest); !slices.Equal(got, want) {
				t.Fatalf("seed %d, %d documents, %+v:\n got %v\nwant %v", seed, len(pool), c, got, want)
			}
		}
	}
}

// TestTop_DependsOnPoolOnly fills two indexes with the same documents in different orders and slots, one of
// them after others were added and removed, with bounds that omit many lists.
func TestTop_DependsOnPoolOnly(t *testing.T) {
	for _, retriever := range similarity.Retrievers {
		for seed := range uint64(10) {
			r := rand.New(rand.NewPCG(seed, 4))
			c := config(r, retriever)
			c.Postings = 1 + r.IntN(400)
			m := similarity.NewHintMaker(c)
			entries := make([]similarity.Entry, 300)
			for i := range entries {
				entries[i] = draw(r, m, c, uint64(i))
			}
			one, two := similarity.New(c), similarity.New(c)
			for i, e := range entries {
				one.Add(int32(i), e)
			}
			for i := range 200 {
				two.Add(int32(i), draw(r, m, c, uint64(1000+i)))
			}
			for _, i := range r.Perm(200) {
				two.Remove(int32(i))
			}
			order := r.Perm(len(entries))
			slot := make([]int32, len(entries))
			for at, i := range order {
				slot[i] = int32(at) + 7
				two.Add(slot[i], entries[i])
			}
			for i := range entries {
				a, b := one.Top(int32(i), 40, 60, nil), two.Top(slot[i], 40, 60, nil)
				for k := range a {
					a[k].Slot = slot[a[k].Slot]
				}
				if !slices.Equal(a, b) {
					t.Fatalf("%s, seed %d: document %d has\n%v\nand\n%v", retriever, seed, i, a, b)
				}
			}
		}
	}
}

// TestDense_PrefilterFindsBest checks that with more documents than are compared exactly, the best one is still found,
// because similar vectors have similar signs.
func TestDense_PrefilterFindsBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	c := similarity.Config{Retriever: "dense", Dimension: 384}
	x := similarity.New(c)
	vector := func(near []float32, noise float64) []float32 {
		v := make([]float32, c.Dimension)
		for i := range v {
			if near != nil {
				v[i] = near[i]
			}
			v[i] += float32(noise * r.NormFloat64())
		}
		return v
	}
	var subjects [][]float32
	for range 100 {
		subjects = append(subjects, vector(nil, 1))
	}
	const n = 3000
	for i := range n {
		v, err := similarity.NormalizeVector(vector(subjects[i%len(subjects)], 0.7), c.Dimension)
		if err != nil {
			t.Fatal(err)
		}
		x.Add(int32(i), similarity.Entry{Seq: uint64(i), Length: 1, Hint: &similarity.Hint{Vector: v}})
	}
	same := 0
	for i := range n {
		if top := x.Top(int32(i), 1, 10, nil); len(top) == 1 && int(top[0].Slot)%len(subjects) == i%len(subjects) {
			same++
		}
	}
	if same < n*99/100 {
		t.Errorf("%d of %d documents have a nearest one of their subject", same, n)
	}
}

func TestTerms_AreBoundedAndSorted(t *testing.T) {
	var m similarity.TermMaker
	if got := m.Terms(nil); len(got) != 0 {
		t.Errorf("no tokens have terms %v", got)
	}
	same := make([]int32, 10<<20)
	for i := range same {
		same[i] = 77
	}
	if got := m.Terms(same); len(got) != 1 || got[0]>>8 != 77 || got[0]&255 == 0 {
		t.Errorf("a token ten million times has terms %v", got)
	}
	r := rand.New(rand.NewPCG(6, 6))
	ids := make([]int32, 3000)
	for i := range ids {
		ids[i] = r.Int32()
	}
	a := m.Terms(ids)
	r.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	if b := m.Terms(ids); !slices.Equal(a, b) || len(a) != 96 || !slices.IsSorted(a) {
		t.Errorf("terms depend on the order of tokens: %v, %v", a, b)
	}
	for i, x := range a {
		if i > 0 && x>>8 == a[i-1]>>8 || x&255 == 0 || bits.Len32(x) > 26 {
			t.Errorf("term %d of %v", i, a)
		}
	}
	// of a frequent and a rare token with equal counts, the rare one is more valuable
	common := make([]int32, 0, 200)
	for id := range int32(100) {
		common = append(common, 300+id, 40000+id)
	}
	for _, x := range m.Terms(common) {
		if x>>8 < 40000 {
			t.Errorf("term %d is kept before rare ones", x>>8)
		}
	}
}

// TestTerms_EqualDefinition computes the terms of random documents by the definition: all terms are sorted and the
// first 96 kept.
func TestTerms_EqualDefinition(t *testing.T) {
	var m similarity.TermMaker
	r := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		ids := make([]int32, r.IntN(1500))
		for i := range ids {
			ids[i] = r.Int32N(1+r.Int32N(2000)) * r.Int32N(300)
		}
		count := map[uint32]int{}
		for _, id := range ids {
			count[uint32(id)%(1<<18)]++
		}
		long := 1.2 * (0.25 + 0.75*float64(len(ids))/512)
		var all [][2]int64 // worth, term
		for id, n := range count {
			weight := 1 + int64(254*(float64(n)/(float64(n)+long)))
			all = append(all, [2]int64{weight * log16(int(id)+2), int64(id)<<8 | weight})
		}
		slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(a[1], b[1])) })
		var want []uint32
		for _, a := range all[:min(len(all), 96)] {
			want = append(want, uint32(a[1]))
		}
		slices.Sort(want)
		if got := m.Terms(ids); !slices.Equal(got, want) {
			t.Fatalf("%d tokens have terms\n%v, want\n%v", len(ids), got, want)
		}
	}
}

func TestPathHashes_OfFolders(t *testing.T) {
	a, b := similarity.PathHashes("x/y/one.go"), similarity.PathHashes("x/y/two.go")
	if len(a) != 3 || a[0] == b[0] || a[1] != b[1] || a[2] != b[2] {
		t.Errorf("paths %v and %v", a, b)
	}
	if similarity.PathHashes("") != nil || similarity.PathHashes("///") != nil {
		t.Error("an empty path has hashes")
	}
	if !slices.Equal(similarity.PathHashes("/x//y/one.go/"), a) {
		t.Error("slashes matter")
	}
	if n := len(similarity.PathHashes(strings.Repeat("a/", 100_000))); n != 16 {
		t.Errorf("%d hashes of a path of 100,000 folders", n)
	}
}

func TestNormalizeVector_ScalesAndRefuses(t *testing.T) {
	for name, v := range map[string][]float32{
		"too short": {1}, "NaN": {1, float32(math.NaN())}, "infinite": {float32(math.Inf(-1)), 0},
	} {
		if _, err := similarity.NormalizeVector(v, 2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, v := range [][]float32{{3, 4}, {3e30, 4e30}, {3e-20, 4e-20}} {
		if got, err := similarity.NormalizeVector(v, 2); err != nil || got[0] != 76 || got[1] != 102 {
			t.Errorf("%v becomes %v, %v", v, got, err)
		}
	}
	if got, err := similarity.NormalizeVector([]int8{-128, 0}, 2); err != nil || got[0] != -127 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := similarity.NormalizeVector([]float32{0, 0}, 2); err != nil || got[0] != 0 {
		t.Errorf("%v, %v", got, err)
	}
	c := similarity.Config{Retriever: "dense", Dimension: 2}
	x := similarity.New(c)
	for i := range int32(3) {
		x.Add(i, similarity.Entry{Seq: uint64(i), Length: 1, Hint: &similarity.Hint{Vector: make([]int8, 2)}})
	}
	if got := x.Top(0, 3, 9, nil); len(got) != 0 {
		t.Errorf("vectors of zeros are related: %v", got)
	}
}

// TestScores_StayWithinBounds checks documents that are maximally similar and rare, with the greatest bonus: scores
// equal those of 64-bit arithmetic.
func TestScores_StayWithinBounds(t *testing.T) {
	for _, retriever := range []string{"bm25", "dense"} {
		c := similarity.Config{Retriever: retriever, PathBonus: similarity.MaxPercent, NearDuplicate: similarity.MaxPercent,
			Postings: similarity.MaxPostings, Dimension: similarity.MaxDimension}
		h := &similarity.Hint{Path: similarity.PathHashes("a/b"), Vector: make([]int8, c.Dimension)}
		for i := range uint32(96) {
			h.Terms = append(h.Terms, i<<8|255)
		}
		for i := range h.Vector {
			h.Vector[i] = -128
		}
		x := similarity.New(c)
		pool := []document{{0, similarity.Entry{Seq: 0, Length: 1, Hint: h}},
			{1, similarity.Entry{Seq: 1, Length: 1, Hint: h}}}
		for _, d := range pool {
			x.Add(d.slot, d.Entry)
		}
		for i := range int32(1 << 16) { // makes their terms rare
			d := document{i + 2, similarity.Entry{Seq: uint64(i) + 2, Length: 9, Hint: &similarity.Hint{}}}
			x.Add(d.slot, d.Entry)
			pool = append(pool, d)
		}
		got, want := x.Top(0, 3, 1, nil), brute(c, pool, pool[0], 3, 1)
		if !slices.Equal(got, want) || len(got) != 1 || got[0].Score < 1<<20 {
			t.Errorf("%s: got %v, want %v", retriever, got, want)
		}
	}
}

// TestDense_ZeroVectorsDisplaceNone checks that vectors of zeros do not displace similar vectors from the exact
// comparison. The signs of a zero vector are close to those of any vector with few positive numbers.
func TestDense_ZeroVectorsDisplaceNone(t *testing.T) {
	x := similarity.New(similarity.Config{Retriever: "dense", Dimension: 64})
	alike := make([]int8, 64)
	for i := range alike {
		alike[i] = -10
	}
	other := slices.Clone(alike)
	other[0], other[1] = 40, 40
	for i := range int32(1000) {
		v := make([]int8, 64)
		if i >= 998 {
			v = [][]int8{alike, other}[i-998]
		}
		x.Add(i, similarity.Entry{Seq: uint64(i), Length: 1, Hint: &similarity.Hint{Vector: v}})
	}
	if got := x.Top(998, 1, 1, nil); len(got) != 1 || got[0].Slot != 999 {
		t.Errorf("got %v, want document 999", got)
	}
	for i := range int32(1000) {
		x.Remove(i)
	}
}

// A document without the data that the retriever compares is related to none.
func TestHasData_NeedsDataOfRetriever(t *testing.T) {
	all := &similarity.Hint{Terms: []uint32{1<<8 | 1}, Path: []uint64{1}, Vector: []int8{0, 1}}
	for retriever, lacks := range map[string]*similarity.Hint{
		"bm25":  {Path: all.Path, Vector: all.Vector},
		"repo":  {Terms: all.Terms, Vector: all.Vector},
		"dense": {Terms: all.Terms, Path: all.Path, Vector: []int8{0, 0}},
	} {
		c := similarity.Config{Retriever: retriever}
		if !c.HasData(all) || c.HasData(lacks) || c.HasData(nil) {
			t.Errorf("%s: says %v, %v and %v, want only the first", retriever, c.HasData(all), c.HasData(lacks), c.HasData(nil))
		}
	}
}
