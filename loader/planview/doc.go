// Package planview holds the state of a run's plan in one process. It reads the plan log, forwards and by step, and
// the document streams of the sources.
package planview
