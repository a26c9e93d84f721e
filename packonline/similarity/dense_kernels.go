//go:build (amd64 || arm64) && !purego

package similarity

import "loaderd/internal/cpufeature"

//go:noescape
func dotKernel(a, b *int8, n int) int32

//go:noescape
func differencesKernel(out, seats *int32, n int, signs, asked *uint64, words int)

// dot returns the dot product of two vectors of the same length, which must be a multiple of vectorUnit.
func dot(a, b []int8) int32 {
	if cpufeature.Kernels && len(a) > 0 {
		_ = b[len(a)-1]
		return dotKernel(&a[0], &b[0], len(a))
	}
	return dotPlain(a, b)
}

// differences sets out[i] to the number of signs in which seat seats[i] differs from the querying document.
func differences(out, seats []int32, signs, asked []uint64) {
	if cpufeature.Kernels && len(seats) > 0 {
		_ = out[len(seats)-1]
		differencesKernel(&out[0], &seats[0], len(seats), &signs[0], &asked[0], len(asked))
		return
	}
	differencesPlain(out, seats, signs, asked)
}
