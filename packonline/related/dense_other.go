//go:build !amd64 || purego

package related

// dot returns the sum of the products of two vectors of the same length, a multiple of vectorUnit.
func dot(a, b []int8) int32 { return dotPlain(a, b) }

// differences sets out for each of some seats to the number of signs in which it differs from the asking document.
func differences(out, seats []int32, signs, asked []uint64) {
	differencesPlain(out, seats, signs, asked)
}
