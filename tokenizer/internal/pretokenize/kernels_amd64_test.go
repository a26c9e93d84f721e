//go:build !purego

package pretokenize

import (
	"math/rand/v2"
	"testing"

	"loaderd/tokenizer/internal/processor"
)

// FuzzBlocks compares the kernels with their twins in Go; a processor without AVX2 has no kernels to compare.
func FuzzBlocks(f *testing.F) {
	every := make([]byte, 256)
	for b := range every {
		every[b] = byte(b)
	}
	for seed := range uint64(300) {
		f.Add(seed, every[:1+seed%256])
		f.Add(seed, []byte("aZ09'\n\r\t\v\f \x7f\x1f!/[`{@:"))
	}
	f.Fuzz(func(t *testing.T, seed uint64, letters []byte) {
		if !processor.AVX2 || len(letters) == 0 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 2))
		for range 50 {
			var p [blockSize]byte
			for i := range p {
				p[i] = letters[r.IntN(len(letters))]
			}
			want, got := masks{inside: 1, first: 1}, masks{inside: 1, first: 1}
			want.classify(&p)
			if classifyAVX2(&got, &p); want != got {
				t.Fatalf("%q is sorted into %x, want %x", p, got, want)
			}
			b, n, i := (r.Uint64()>>r.IntN(64))&r.Uint64()|1<<r.IntN(64), r.IntN(BatchSize-blockSize+1), r.IntN(1<<30)
			var ends, places [BatchSize]int32
			listBitsPlain(&ends, n, b, i)
			if listBitsBMI(&places[n], b, i); ends != places {
				t.Fatalf("the bits of %x from %d on are %v, want %v", b, i, places, ends)
			}
		}
	})
}
