//go:build (!amd64 && !arm64) || purego

package similarity

// dot returns the dot product of two vectors of the same length, which must be a multiple of vectorUnit.
func dot(a, b []int8) int32 { return dotPlain(a, b) }

// differences sets out[i] to the number of signs in which seat seats[i] differs from the querying document.
func differences(out, seats []int32, signs, asked []uint64) {
	differencesPlain(out, seats, signs, asked)
}
