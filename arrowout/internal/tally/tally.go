// Package tally counts by key.
package tally

// Decrement decrements the count of a key, and removes the key at zero.
func Decrement[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
