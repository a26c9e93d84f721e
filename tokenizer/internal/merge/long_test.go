package merge_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/tokentest"
)

// Both algorithms for merging a long word agree, and neither retains the memory that a huge one needs.
func TestLongMerge_AlgorithmsAgree(t *testing.T) {
	for _, name := range definition.Builtin() {
		m := tokentest.Builtin(t, name).Merges
		for i, unit := range []string{"a", " ", "\n", "1", "'", "中", "👩‍🔬", "e\u0301", "abc", "文字中"} {
			size := 1 << 15
			if i == 0 {
				size += merge.KeepNodes
			}
			text := []byte(strings.Repeat(unit, size/len(unit)))
			var s merge.Scratch
			if rank, heap := m.ByRank(&s, text), m.ByHeap(&s, text); !slices.Equal(rank, heap) {
				t.Errorf("%s: %q: the two long merges differ", name, unit)
			}
			if n := s.Kept(); n > merge.KeepNodes {
				t.Errorf("%s: %q: scratch for %d bytes is kept", name, unit, n)
			}
		}
	}
}

// The faster algorithm for long words requires merges in the order of training; tests must use both.
func TestMerges_OrderedLikeTraining(t *testing.T) {
	for _, name := range definition.Builtin() {
		if !tokentest.Builtin(t, name).Merges.Ordered() {
			t.Errorf("%s: merges are not in the order of training", name)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for k := range 24 {
		jumbled := k%2 == 1
		if tokentest.Definition(t, tokentest.SmallFile(tokentest.RandomMerges(r, 60,
			jumbled)...)).Merges.Ordered() == jumbled {
			t.Errorf("model %d: jumbled %t", k, jumbled)
		}
	}
}
