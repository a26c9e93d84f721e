package loader

import (
	"fmt"
	"slices"
	"testing"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// At each position of a source, follows returns the documents that the mixture takes next, also over epoch ends.
func TestNextDocuments_MatchMixtureOrder(t *testing.T) {
	const seed = 5
	for _, epochs := range []mixture.Epochs{1, 2, 3} {
		for _, block := range []int{0, 1, 4} {
			for _, sealed := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d epochs, block %d, sealed %t", epochs, block, sealed), func(t *testing.T) {
					begin := mixture.SourceRange{First: 3, Last: 13, Sealed: sealed}
					config := mixture.Source{Weight: 1, Epochs: epochs, Block: block}
					c := mixture.Config{Seed: seed, Sources: map[string]mixture.Source{"a": config}}
					c.Mix.OnDry, c.Mix.End = mixture.DryWait, mixture.EndAll
					if !sealed {
						begin.Last = 0
					}
					m, err := mixture.New(c, map[string]mixture.SourceRange{"a": begin})
					if err != nil {
						t.Fatal(err)
					}
					info := plan.SourceInfo{SourceBegin: plan.SourceBegin{Name: "a", Start: 3, Last: begin.Last, Sealed: sealed},
						Config: config}
					var taken []uint64
					var said [][]uint64 // at each position
					for len(taken) < 40 {
						if !sealed && len(taken) == 6 {
							if err := m.Seal(0, 13); err != nil {
								t.Fatal(err)
							}
						}
						said = append(said, nextSequences(seed, info, state.SourceStats{Status: m.Status()[0]}, 13, 5))
						_, sequence, ok := m.Next()
						if !ok {
							break
						}
						taken = append(taken, sequence)
						m.RecordNext(10, 10)
						m.ApplySourceEnds()
					}
					if len(taken) != 11*int(epochs) {
						t.Fatalf("%d documents are taken, not %d", len(taken), 11*int(epochs))
					}
					for i, got := range said {
						want := taken[i:min(i+5, len(taken))]
						if !sealed && i < 6 { // nothing is predicted after the last stored document
							want = taken[i:min(i+5, 11)]
						}
						if !slices.Equal(got, want) {
							t.Errorf("at document %d: %v is said to follow, %v is taken", i, got, want)
						}
					}
				})
			}
		}
	}
}
