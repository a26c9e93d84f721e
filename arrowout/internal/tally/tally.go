// Package tally counts by key.
package tally

// Decrement counts one less under a key, and removes a key with none.
func Decrement[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
