// Package waiting has helpers for goroutines that wait for each other.
package waiting
