// Package planview is what one process knows of the plan of a run: its log, read forwards and step by step, and the
// document streams of its sources.
package planview
