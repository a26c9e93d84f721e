//go:build (amd64 || arm64) && !purego

package pretokenize

import (
	"math/rand/v2"
	"testing"

	"loaderd/internal/cpufeature"
)

// blocks returns the bytes of which blocks consist: all of them, ASCII and other characters.
func blocks(seed uint64) [][]byte {
	every := make([]byte, 256)
	for b := range every {
		every[b] = byte(b)
	}
	return [][]byte{every[:1+seed%256], []byte("aZ09'\n\r\t\v\f \x7f\x1f!/[`{@:"), []byte("é\u0301бБǅʰ中カا“\u3000٣👩")}
}

func TestBlocks_KernelsAgreeWithGo(t *testing.T) {
	compare := compareKernels()
	for seed := range uint64(300) {
		for _, some := range blocks(seed) {
			compare(t, seed, some)
		}
	}
}

func FuzzBlocks(f *testing.F) {
	for _, some := range blocks(255) {
		f.Add(uint64(1), some)
	}
	f.Fuzz(compareKernels())
}

// compareKernels compares the kernels with their Go versions, if the processor supports them.
func compareKernels() func(t *testing.T, seed uint64, some []byte) {
	letters := []*letterKinds{plainLetters(), lettersAndMarks(), casedLetters(), casedNotHan()}
	return func(t *testing.T, seed uint64, some []byte) {
		if !cpufeature.Kernels || len(some) == 0 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 2))
		for range 50 {
			var p block
			for i := range p {
				p[i] = some[r.IntN(len(some))]
			}
			want, got := masks{inside: 1, first: 1}, masks{inside: 1, first: 1}
			want.classify(&p)
			if classifyKernel(&got, &p); want != got {
				t.Fatalf("%q is sorted into %x, want %x", p, got, want)
			}
			for _, kinds := range letters {
				var wantBy, gotBy letterMasks
				wantLeft, gotLeft := kinds.sortPlain(&wantBy, &p, want.first), sortKernel(&kinds.kind[0], &p, want.first, &gotBy)
				if wantBy != gotBy || wantLeft != gotLeft {
					t.Fatalf("%q is sorted into %x up to %x, want %x up to %x", p, gotBy, gotLeft, wantBy, wantLeft)
				}
			}
			b, n, i := (r.Uint64()>>r.IntN(64))&r.Uint64()|1<<r.IntN(64), r.IntN(BatchSize-blockSize+1), r.IntN(1<<30)
			var ends, places [BatchSize]int32
			listBitsPlain(&ends, n, b, i)
			if listBitsKernel(&places[n], b, i); ends != places {
				t.Fatalf("the bits of %x from %d on are %v, want %v", b, i, places, ends)
			}
		}
	}
}
