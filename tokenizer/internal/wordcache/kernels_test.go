//go:build (amd64 || arm64) && !purego

package wordcache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/cpufeature"
	"loaderd/tokenizer/internal/tokentest"
)

// sameSteps fails unless each kernel agrees with its Go version for batches of random words of the given letters:
// keys, places, missing words, ids.
func sameSteps(t *testing.T, lines []line, seed uint64, letters []byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		s := make([]byte, 0, 8<<10)
		var ends []int32
		for n := 1 + r.IntN(batchSize); len(ends) < n; {
			for range 1 + r.IntN([]int{7, 16, 34}[r.IntN(3)]) {
				s = append(s, letters[r.IntN(len(letters))])
			}
			ends = append(ends, int32(len(s)))
		}
		n := len(ends)
		last := 0
		if n > 1 {
			last = int(ends[n-2])
		}
		s = tokentest.CopyToGuardPage(t, append(s, make([]byte, max(0, last+16-len(s)))...))
		key, place := make([]lineKey, n), make([]uint32, n)
		key2, place2 := make([]lineKey, n), make([]uint32, n)
		packPlain(s, 0, ends, key, place)
		packKernel(&lines[0], &s[0], 0, ends, &key2[0], &place2[0])
		if !slices.Equal(key, key2) || !slices.Equal(place, place2) {
			t.Fatal("keys differ")
		}
		lineOf := slices.Clone(place)
		var missing, missing2 [batchSize]uint16
		m := matchPlain(lines, key, place, &missing, 0, 0)
		m2 := matchKernel(&lines[0], key, &place2[0], &missing2[0], 0, 0)
		if m != m2 || !slices.Equal(missing[:m], missing2[:m]) || !slices.Equal(place, place2) {
			t.Fatalf("the words found differ: %d are missing in Go, %d in assembly", m, m2)
		}
		for j, k := range missing[:m] {
			ids := make([]int32, 1+r.IntN(1+r.IntN(lineIDs+2)))
			for i := range ids {
				ids[i] = r.Int32N(idMask + 1)
			}
			own := &lines[firstMissing+j]
			if !own.ids.pack(ids) {
				own.ids = packedIDs{elsewhere << (idsEach * idBits)}
			}
			place[k] = uint32(firstMissing+j) * lineBytes
		}
		dst, dst2 := make([]int32, (lineIDs+1)*n), make([]int32, (lineIDs+1)*n)
		for from := 0; from < n; {
			words, ids := emitPlain(lines, dst, place[from:])
			words2, ids2 := emitKernel(&lines[0], &dst2[0], place[from:])
			if words != words2 || ids != ids2 || !slices.Equal(dst[:ids], dst2[:ids]) {
				t.Fatal("ids differ")
			}
			from += words + 1
		}
		for j, k := range missing[:m] {
			own := &lines[firstMissing+j]
			if !key[k].isTooLong() && idTriple(own.ids[0]).count() != elsewhere {
				lines[lineOf[k]/lineBytes].insert(keysEach(lineOf[k]), &key[k], &own.ids)
			}
		}
	}
}

// FuzzSteps compares the kernels with their Go versions, if the processor supports them.
func FuzzSteps(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed, []byte(" the quick\x00\x00\n brown fox\tjumps over 中文字 слово-очень-длинное-и-ещё"))
		f.Add(seed, []byte("ab"))
	}
	lines := make([]line, firstMissing+batchSize)
	f.Fuzz(func(t *testing.T, seed uint64, letters []byte) {
		if cpufeature.Kernels && len(letters) > 0 {
			sameSteps(t, lines, seed, letters)
		}
	})
}
