//go:build (amd64 || arm64) && !purego

package similarity

import (
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/cpufeature"
)

// FuzzDense_Kernels compares the kernels with their Go equivalents, including the limits of int8, if the
// processor supports them.
func FuzzDense_Kernels(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed, []byte{0x80, 0x7f, 0, 1, 0xff})
		f.Add(seed, []byte{0x80})
	}
	f.Fuzz(func(t *testing.T, seed uint64, some []byte) {
		if !cpufeature.Kernels || len(some) == 0 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 6))
		a := make([]int8, vectorUnit*(1+r.IntN(MaxDimension/vectorUnit)))
		b := make([]int8, len(a))
		for i := range a {
			a[i], b[i] = int8(some[r.IntN(len(some))]), int8(some[r.IntN(len(some))])
		}
		if got, want := dotKernel(&a[0], &b[0], len(a)), dotPlain(a, b); got != want {
			t.Fatalf("the product of %v and %v is %d, want %d", a, b, got, want)
		}
		asked := make([]uint64, signsUnit*(1+r.IntN(8)))
		signs := make([]uint64, len(asked)*(1+r.IntN(50)))
		for _, words := range [][]uint64{asked, signs} {
			for i := range words {
				words[i] = r.Uint64() & r.Uint64() >> r.IntN(64)
			}
		}
		seats := make([]int32, 1+r.IntN(40))
		for i := range seats {
			seats[i] = r.Int32N(int32(len(signs) / len(asked)))
		}
		got, want := make([]int32, len(seats)), make([]int32, len(seats))
		differencesKernel(&got[0], &seats[0], len(seats), &signs[0], &asked[0], len(asked))
		if differencesPlain(want, seats, signs, asked); !slices.Equal(got, want) {
			t.Fatalf("the differences are %d, want %d", got, want)
		}
	})
}
