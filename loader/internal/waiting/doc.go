// Package waiting has what goroutines that wait for each other need.
package waiting
