package similarity_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/packonline/similarity"
)

// scan returns the results of repo by a scan of the pool for each file and folder of the querying document, and a
// sort of all matches. It ends at a folder with more documents than the bound permits, or after 256 results.
func scan(pool []document, hidden map[int32]bool, asking document, bound, k int, longest int32) []similarity.Candidate {
	type answer struct {
		similarity.Candidate
		seq uint64
	}
	var found []answer
	has := map[int32]bool{}
	for i, folder := range asking.Hint.Path {
		before := len(found)
		for _, d := range pool {
			if !slices.Contains(d.Hint.Path, folder) {
				continue
			}
			bound--
			fits := d.slot != asking.slot && d.Length <= longest && d.Hint.Source == asking.Hint.Source
			if fits && !hidden[d.slot] && !has[d.slot] {
				score := int32(len(asking.Hint.Path) + 1 - i)
				found = append(found, answer{similarity.Candidate{Slot: d.slot, Score: score}, d.Seq})
			}
		}
		if bound < 0 {
			found = found[:before]
			break
		}
		for _, a := range found[before:] {
			has[a.Slot] = true
		}
		if len(found) >= 256 {
			break
		}
	}
	slices.SortFunc(found, func(a, b answer) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.seq, b.seq))
	})
	var out []similarity.Candidate
	for _, a := range found[:min(k, len(found))] {
		out = append(out, a.Candidate)
	}
	return out
}

// TestRepo_EqualsAScan compares results in pools of a few large folders with those of a scan, while documents are
// added in and out of order, removed and hidden. It varies all parameters of a query: the number of results, the
// longest document, and the bound.
func TestRepo_EqualsAScan(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			c := similarity.Config{Retriever: "repo", Postings: []int{similarity.MaxPostings, 700, 90}[seed%3]}
			x, m := similarity.New(c), similarity.NewHintMaker(c)
			most, folders := 50+r.IntN(900), 1+r.IntN(6)
			var pool []document
			hidden := map[int32]bool{}
			free := r.Perm(most)
			add := func(seq int) {
				e := similarity.Entry{Seq: uint64(seq), Length: 1 + r.Int32N(100)}
				if r.IntN(3) == 0 {
					e.Length += 2000
				}
				name := fmt.Sprintf("src/%d/%d/f%d.go", r.IntN(folders), r.IntN(2), r.IntN(2*most))
				e.Hint = m.Hint([]string{"one", "two"}[r.IntN(8)/7], nil, name, nil)
				d := document{int32(free[0]), e}
				free = free[1:]
				pool = append(pool, d)
				x.Add(d.slot, d.Entry)
			}
			remove := func(i int) {
				x.Remove(pool[i].slot)
				free = append(free, int(pool[i].slot))
				delete(hidden, pool[i].slot)
				pool = slices.Delete(pool, i, i+1)
			}
			seqs := r.Perm(3000)
			if seed%2 == 0 {
				slices.Sort(seqs)
			}
			for n := range seqs {
				if len(pool) == most {
					for range 1 + r.IntN(most/2) { // the first or any
						remove(r.IntN(len(pool)) * r.IntN(2))
					}
				}
				add(seqs[n])
				if n%8 > 0 {
					continue
				}
				asking := pool[r.IntN(len(pool))]
				if other := pool[r.IntN(len(pool))].slot; other != asking.slot {
					hidden[other] = !hidden[other]
					x.SetHidden(other, hidden[other])
				}
				k, longest := []int{1, 3, 256, 400}[r.IntN(4)], []int32{5, 60, 2050, math.MaxInt32}[r.IntN(4)]
				got := x.Top(asking.slot, k, longest, nil)
				if want := scan(pool, hidden, asking, c.Postings, k, longest); !slices.Equal(got, want) {
					t.Fatalf("after %d documents, %d answers of at most %d tokens:\n got %v\nwant %v",
						n, k, longest, got, want)
				}
			}
		})
	}
}
