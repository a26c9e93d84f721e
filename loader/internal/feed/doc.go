// Package feed hands documents from the streams of a run to the goroutine that plans them.
package feed
