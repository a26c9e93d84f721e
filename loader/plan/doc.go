// Package plan defines the contents of a plan: steps, and the document lengths that they are made of. Package planner
// makes the steps; package planrecord encodes them.
//
// It is pure: it has no clock, no goroutine and no I/O, and all randomness is keyed by the configuration. It sees
// lengths, never tokens.
package plan
