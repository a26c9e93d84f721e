//go:build !purego

package similarity

import "loaderd/internal/cpufeature"

//go:noescape
func dotAVX2(a, b *int8, n int) int32

//go:noescape
func differencesPOPCNT(out, seats *int32, n int, signs, asked *uint64, words int)

// dot returns the dot product of two vectors of the same length, which must be a multiple of vectorUnit.
func dot(a, b []int8) int32 {
	if cpufeature.AVX2 && len(a) > 0 {
		_ = b[len(a)-1]
		return dotAVX2(&a[0], &b[0], len(a))
	}
	return dotPlain(a, b)
}

// differences sets out[i] to the number of signs in which seat seats[i] differs from the querying document.
func differences(out, seats []int32, signs, asked []uint64) {
	if cpufeature.AVX2 && len(seats) > 0 {
		_ = out[len(seats)-1]
		differencesPOPCNT(&out[0], &seats[0], len(seats), &signs[0], &asked[0], len(asked))
		return
	}
	differencesPlain(out, seats, signs, asked)
}
