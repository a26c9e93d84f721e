// Package feed reads documents from the streams of a run, for the goroutine that plans them.
package feed
